/* Puts "right / wrong / what should it have said" under an answer. No dependencies, no cookies, nothing inline.
   <div data-corrigenda data-run="RUN" data-token="PARTICIPANT TOKEN"></div>, or Corrigenda.mount(element, options).
   See docs/widget.md. */
(() => {
  "use strict";
  const TEXTS = {
    question: "Was this answer right?",
    right: "Right",
    wrong: "Wrong",
    should: "What should it have said?",
    why: "What was wrong with it?",
    needed: "Please fill in one of the two.",
    send: "Send",
    cancel: "Cancel",
    retry: "Try again",
    sending: "Sending …",
    saidRight: "Thank you. Recorded: the answer was right.",
    saidWrong: "Thank you. Recorded: the answer was wrong.",
    failed: "That didn’t get through. What you wrote is still here.",
    expired: "This page was open for too long. Copy what you wrote, then reload the page.",
    refused: "This can’t be recorded any more. What you wrote is still here.",
  };
  // The page's own rules win: :where() weighs nothing. A constructed sheet needs no 'unsafe-inline' in a CSP.
  const CSS = `
:where(.corrigenda){font:inherit;margin-block:.5em;max-inline-size:40em}
:where(.corrigenda [hidden]){display:none}
:where(.corrigenda-choice,.corrigenda-form,.corrigenda-note){margin:0;padding:0;border:0;min-inline-size:0}
:where(.corrigenda-choice legend){padding:0;float:inline-start;margin-inline-end:.75em;line-height:2.2}
:where(.corrigenda button){font:inherit;color:inherit;background:transparent;border:1px solid;border-radius:.4em;
 padding:.3em .9em;min-block-size:2.2em;margin-block-end:.3em;margin-inline-end:.4em;cursor:pointer}
:where(.corrigenda button[aria-pressed=true]){font-weight:bold;border-width:2px;padding:calc(.3em - 1px) calc(.9em - 1px)}
:where(.corrigenda button[aria-disabled=true]){opacity:.6;cursor:progress}
:where(.corrigenda :focus-visible){outline:3px solid;outline-offset:2px}
:where(.corrigenda-form){clear:both;padding-block-start:.6em}
:where(.corrigenda-form label){display:block}
:where(.corrigenda-form textarea){font:inherit;display:block;box-sizing:border-box;inline-size:100%;
 margin-block:.3em .5em}
:where(.corrigenda-note){clear:both;padding-block-start:.4em;min-block-size:1.5em}
:where(.corrigenda-note span){margin-inline-end:.6em}`;
  const TIMEOUT = 20000;
  const script = document.currentScript;
  const home = script ? script.src.replace(/\/static\/corrigenda\.js.*$/, "") : "";
  let count = 0;
  let styled = false;

  function style() {
    if (styled || !("adoptedStyleSheets" in document)) return;
    styled = true;
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(CSS);
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
  }

  function make(name, attributes, ...children) {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  }

  function newKey() {
    return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
  }

  function mount(host, options = {}) {
    if (host.corrigenda) return host.corrigenda;
    const data = host.dataset;
    const run = options.run || data.run;
    const url = (options.url || data.url || home).replace(/\/+$/, "");
    const text = {};
    for (const name in TEXTS) {
      text[name] = options.texts?.[name] ?? data["text" + name[0].toUpperCase() + name.slice(1)] ?? TEXTS[name];
    }
    const lang = options.lang || data.lang;
    const dir = options.dir || data.dir || (lang ? "" : "ltr");
    const id = `corrigenda-${++count}`;
    const state = { said: null, body: null, key: null, busy: false, touched: false };

    // What is on the page
    const button = (name, more = {}) => make("button", { type: "button", class: `corrigenda-${name}`, ...more }, text[name]);
    const right = button("right", { "aria-pressed": "false" });
    const wrong = button("wrong", { "aria-pressed": "false", "aria-expanded": "false", "aria-controls": `${id}-form` });
    const choice = make("fieldset", { class: "corrigenda-choice" }, make("legend", {}, text.question), right, wrong);
    const area = (name) => make("textarea", { id: `${id}-${name}`, rows: "2", maxlength: "4000", dir: "auto" });
    const label = (name) => make("label", { for: `${id}-${name}` }, text[name]);
    const should = area("should");
    const why = area("why");
    const send = button("send", { type: "submit" });
    const cancel = button("cancel");
    const form = make("form", { id: `${id}-form`, class: "corrigenda-form" });
    form.append(label("should"), should, label("why"), why, send, cancel);
    const status = make("span", { role: "status" });
    const retry = button("retry");
    const root = make("div", { class: "corrigenda", lang: lang || "en" }, choice, form);
    if (dir) root.dir = dir;
    root.append(make("div", { class: "corrigenda-note" }, status, retry));
    form.hidden = retry.hidden = true;

    function open(opened) {
      form.hidden = !opened;
      wrong.setAttribute("aria-expanded", String(opened));
    }

    function show(said) {
      state.said = said;
      right.setAttribute("aria-pressed", String(said === "right"));
      wrong.setAttribute("aria-pressed", String(said === "wrong"));
    }

    function busy(is) {
      state.busy = is;
      for (const one of [right, wrong, send, retry]) one.setAttribute("aria-disabled", String(is));
    }

    // What goes over the wire
    async function ask(path, init, again = true) {
      const token = options.token || data.token;
      const renewable = typeof token === "function";
      const bearer = renewable ? await token() : token;
      const stop = new AbortController();
      const timer = setTimeout(() => stop.abort(), TIMEOUT);
      try {
        const headers = { Authorization: `Bearer ${bearer}`, ...init.headers };
        const answer = await fetch(url + path, { ...init, headers, credentials: "omit", signal: stop.signal });
        if (answer.status === 401 && renewable && again) return ask(path, init, false);
        return { status: answer.status, body: answer.ok ? await answer.json() : null };
      } finally {
        clearTimeout(timer);
      }
    }

    function post(body) {
      // The same content has the same key until it is recorded: sent twice, it is one correction.
      if (body !== state.body) Object.assign(state, { body, key: newKey() });
      const headers = { "Content-Type": "application/json", "Idempotency-Key": state.key };
      return ask("/v1/corrections", { method: "POST", headers, body });
    }

    async function record(answer) {
      if (state.busy) return;
      state.touched = true;
      const said = { runId: run, answer };
      if (answer === "wrong") {
        const words = (area) => area.value.replace(/[\0\p{Surrogate}]/gu, "").trim() || undefined;
        Object.assign(said, { shouldSay: words(should), why: words(why) });
        if (!said.shouldSay && !said.why) {
          status.textContent = text.needed;
          return should.focus();
        }
      }
      busy(true);
      status.textContent = text.sending;
      let result = { status: 0 };
      try {
        result = await post(JSON.stringify(said));
      } catch {
        // No answer: told below, and may be tried again.
      }
      busy(false);
      if (result.status === 201) recorded(answer, result.body);
      else failed(answer, result.status);
    }

    function recorded(answer, correction) {
      Object.assign(state, { body: null, key: null });
      const within = root.contains(document.activeElement);
      show(answer);
      open(false);
      retry.hidden = true;
      status.textContent = answer === "right" ? text.saidRight : text.saidWrong;
      if (within) (answer === "right" ? right : wrong).focus();
      host.dispatchEvent(new CustomEvent("corrigenda:recorded", { bubbles: true, detail: correction }));
    }

    function failed(answer, code) {
      const final = code === 403 || code === 404 || code === 410;
      status.textContent = code === 401 ? text.expired : final ? text.refused : text.failed;
      retry.hidden = final;
      retry.onclick = () => record(answer);
      host.dispatchEvent(new CustomEvent("corrigenda:failed", { bubbles: true, detail: { status: code } }));
    }

    async function recall() {
      try {
        const { body } = await ask(`/v1/corrections?runId=${encodeURIComponent(run)}`, {});
        const [earlier] = body ? body.data : [];
        if (!earlier || state.touched) return;
        show(earlier.answer);
        should.value = earlier.shouldSay || "";
        why.value = earlier.why || "";
      } catch {
        // What was said before can't be shown now; it can still be said anew.
      }
    }

    // A double click is one press, however fast the first was answered.
    const again = (event) => event.detail > 1;
    right.onclick = (event) => again(event) || record("right");
    wrong.onclick = (event) => {
      state.touched = true;
      if (!again(event)) open(form.hidden);
      if (!form.hidden) should.focus();
    };
    cancel.onclick = () => {
      open(false);
      wrong.focus();
    };
    form.onsubmit = (event) => {
      event.preventDefault();
      record("wrong");
    };
    style();
    host.append(root);
    recall();
    return (host.corrigenda = { root });
  }

  function mountAll() {
    for (const host of document.querySelectorAll("[data-corrigenda]")) mount(host);
  }

  window.Corrigenda = { mount };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", mountAll);
  else mountAll();
})();
