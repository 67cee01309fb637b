"""A tiny agent of an online shop, in three versions: what a model would decide is decided by hand here.

``python agent.py VERSION MESSAGE`` prints what it does: ``{"answer", "toolCalls"}``.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any

Output = dict[str, Any]


def run(version: str, message: str) -> Output:
    """What the agent does with a customer's message."""
    order = re.search(r"#(\d+)", message)
    if order is None:
        return {"answer": "Which order is it about?", "toolCalls": []}
    return VERSIONS[version](message, int(order.group(1)))


def hand_over(message: str, order: int) -> Output:
    """1.0.0 gives everything to a human."""
    calls = [{"tool": "transfer_to_human", "args": {"order": order}}]
    return {"answer": "I am handing you over to a colleague.", "toolCalls": calls}


def refund(message: str, order: int) -> Output:
    """1.1.0 refunds what arrived broken."""
    if "broken" not in message:
        return hand_over(message, order)
    calls = [{"tool": "get_order", "args": {"order": order}}, {"tool": "refund", "args": {"order": order}}]
    return {"answer": f"I have refunded order #{order}.", "toolCalls": calls}


def promise(message: str, order: int) -> Output:
    """1.2.0 has a friendlier prompt, and forgets to do what it says."""
    done = refund(message, order)
    return {
        "answer": f"So sorry! {done['answer']}",
        "toolCalls": [call for call in done["toolCalls"] if call["tool"] != "refund"],
    }


VERSIONS = {"1.0.0": hand_over, "1.1.0": refund, "1.2.0": promise}


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1], sys.argv[2])))
