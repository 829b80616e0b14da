// Gamepads, whose buttons stand for keys.

const BUTTONS = [
  ["Space", [0]], ["KeyE", [1]], ["KeyR", [2]], ["KeyF", [3]], ["KeyP", [9]],
  ["ArrowUp", [12]], ["ArrowDown", [13]], ["ArrowLeft", [14]], ["ArrowRight", [15]],
];
const STICK = [["ArrowLeft", 0, -1], ["ArrowRight", 0, 1], ["ArrowUp", 1, -1], ["ArrowDown", 1, 1]];
const FAR = 0.5; // how far a stick must lean
const down = new Set();

function pressedOn(pad) {
  const buttons = BUTTONS.filter(([, own]) => own.some((i) => pad.buttons[i]?.pressed)).map(([key]) => key);
  const stick = STICK.filter(([, axis, side]) => side * (pad.axes[axis] ?? 0) > FAR).map(([key]) => key);
  return [...buttons, ...stick];
}

function read(onDown, onUp) {
  const pads = navigator.getGamepads().filter((pad) => pad);
  const now = new Set(pads.flatMap(pressedOn));
  for (const key of down) {
    if (now.has(key)) continue;
    down.delete(key);
    onUp(key);
  }
  for (const key of now) {
    if (down.has(key)) continue;
    down.add(key);
    onDown(key);
  }
  return pads.length > 0;
}

export function listenToGamepads(onDown, onUp) {
  // Calls back with the code of a key when a button is pressed and released.
  if (!navigator.getGamepads) return;
  let reading = false;
  const step = () => {
    reading = read(onDown, onUp);
    if (reading) requestAnimationFrame(step);
  };
  window.addEventListener("gamepadconnected", () => reading || step());
  step();
}
