// The page of a person in a study: one stage after another, as the server says.

import { $, ask, element } from "./board.js";
import { enter, leaveSocket } from "./game.js";

let token = null;
let stage = 0;

const call = (path, body) => ask(path, body, { "X-Token": token });

function show(name) {
  $("stage-page").hidden = name !== "stage";
  $("game").hidden = name !== "game";
}

function paragraphs(text) {
  return text.trim().split(/\n\s*\n/).map((part) => element("p", part.trim()));
}

function button(text, action, strong = false) {
  const made = element("button", text, { type: "button", ...(strong ? { class: "strong" } : {}) });
  made.onclick = async () => {
    made.disabled = true;
    await action();
    made.disabled = false;
  };
  return made;
}

function present(title, content, choice) {
  leaveSocket();
  show("stage");
  $("problem").textContent = "";
  $("title").textContent = title;
  $("content").replaceChildren(...content);
  $("choice").replaceChildren(...choice);
  window.scrollTo(0, 0);
}

function sorry(error) {
  show("stage");
  $("problem").textContent = error.message;
  if (!$("choice").children.length) $("choice").replaceChildren(button("Try again", next));
}

async function answer(answers) {
  try {
    await call("api/study/answer", { stage, answers });
  } catch (error) {
    sorry(error);
    return;
  }
  await next();
}

async function next() {
  let found;
  try {
    found = await call("api/study/now");
  } catch (error) {
    sorry(error);
    return;
  }
  document.title = found.title;
  if (found.kind !== "end") {
    stage = found.stage;
    $("progress").value = found.stage / found.stages;
  }
  STAGES[found.kind](found);
}

const STAGES = {
  consent: (found) => present(found.title, paragraphs(found.text), [
    button(found.agree, () => answer({ agree: "yes" }), true),
    button("I do not take part", () => answer({ agree: "no" })),
  ]),
  text: (found) => present(found.title, paragraphs(found.text), [button("Continue", () => answer({}), true)]),
  questions: (found) => present(found.title, found.questions.map(ask_one), [
    button("Continue", () => answer(read(found.questions)), true),
  ]),
  waiting: (found) => {
    present("One moment", [element("p", "You will play with another person. As soon as somebody is there, it begins.")], []);
    if (found.seconds) $("content").append(element("p", `If nobody comes within ${found.seconds} s, you play with a program.`));
    setTimeout(next, 1000);
  },
  game: (found) => {
    show("game");
    $("over").hidden = true;
    const again = found.number > 0 ? "Please try once more. " : "";
    $("note").textContent = found.note ? again + found.note : "";
    enter(found.game, found.token, {
      onOver: (text) => {
        $("over").hidden = false;
        $("result").textContent = text;
        $("status").textContent = "";
        $("go-on").focus();
      },
      onRefused: next,
    });
  },
  end: (found) => {
    $("progress").value = 1;
    if (found.outcome === "declined") return present("Thank you", [element("p", "You do not take part. Nothing more is to be done.")], []);
    if (found.outcome === "failed") return present("Thank you", [element("p", "The study ends here for you, since the first game was not passed.")], []);
    const said = [element("p", "You have reached the end. Thank you for taking part!")];
    if (found.code) said.push(element("p", "Your code:"), element("output", found.code, { id: "code" }));
    const links = found.redirect ? [element("a", "Continue", { href: found.redirect, class: "strong", id: "redirect" })] : [];
    return present("Thank you", said, links);
  },
};

function ask_one(question) {
  const part = element("fieldset");
  part.append(element("legend", question.text + (question.optional ? " (optional)" : "")));
  if (question.kind === "text") {
    part.append(element("textarea", undefined, { name: question.name, rows: 4, maxlength: 5000, "aria-label": question.text }));
    return part;
  }
  const scale = question.kind === "scale";
  const values = scale ? Array.from({ length: question.points }, (_, i) => i + 1) : question.options;
  const row = element("div", undefined, { class: scale ? "scale" : "options" });
  if (scale) row.append(element("span", question.low));
  for (const value of values) {
    const label = element("label");
    label.append(element("input", undefined, { type: "radio", name: question.name, value }), String(value));
    row.append(label);
  }
  if (scale) row.append(element("span", question.high));
  part.append(row);
  return part;
}

function read(questions) {
  const given = new FormData($("content"));
  return Object.fromEntries(questions.map((question) => {
    const value = given.get(question.name);
    if (value === null || value === "") return [question.name, null];
    return [question.name, question.kind === "scale" ? Number(value) : value];
  }));
}

async function begin() {
  try {
    token = localStorage.getItem("study-token");
    const facts = await ask("api/study");
    if (!token) {
      const id = new URLSearchParams(location.search).get(facts.id_parameter);
      token = (await ask("api/study/join", { id })).token;
      localStorage.setItem("study-token", token);
    }
  } catch (error) {
    $("problem").textContent = error.message;
    $("choice").replaceChildren(button("Try again", begin));
    return;
  }
  await next();
}

$("content").onsubmit = (event) => event.preventDefault();
$("go-on").onclick = next;
begin();
