"use strict";
// Zooming, panning, stepping through changes, and details on pointing. Without scripts the graphs scroll.
document.documentElement.classList.add("js");
const tip = document.getElementById("tip");

for (const panel of document.querySelectorAll(".panel")) {
  const view = panel.querySelector(".view");
  const svg = panel.querySelector("svg.graph");
  if (!svg) continue;
  const all = svg.viewBox.baseVal;
  const whole = { x: all.x, y: all.y, width: all.width, height: all.height };
  panel.classList.add("live");

  let scale = 1, x = 0, y = 0; // pixels per unit, and the point at the upper left
  const show = () => {
    svg.setAttribute("viewBox", `${x} ${y} ${view.clientWidth / scale} ${view.clientHeight / scale}`);
  };
  const middle = () => {
    x = whole.x + whole.width / 2 - view.clientWidth / scale / 2;
  };
  const fitAll = () => {
    scale = Math.min(view.clientWidth / whole.width, view.clientHeight / whole.height, 1.5);
    middle();
    y = whole.y + whole.height / 2 - view.clientHeight / scale / 2;
    show();
  };
  // Large graphs start at their first node and in readable size; small ones need less room.
  const start = () => {
    scale = Math.max(Math.min(view.clientWidth / whole.width, 1), 0.6);
    if (whole.height * scale < view.clientHeight) view.style.height = whole.height * scale + "px";
    if (whole.width * scale <= view.clientWidth + 1) middle();
    else {
      const first = svg.querySelector(".n").transform.baseVal[0].matrix.e;
      const room = view.clientWidth / scale;
      x = Math.max(whole.x, Math.min(first - room / 2, whole.x + whole.width - room));
    }
    y = whole.y;
    show();
  };
  const zoom = (factor, px, py) => {
    const next = Math.min(Math.max(scale * factor, 0.02), 6);
    x += px / scale - px / next;
    y += py / scale - py / next;
    scale = next;
    show();
  };

  const changes = [...svg.querySelectorAll(".n.new")];
  let at = -1;
  const step = (by) => {
    if (!changes.length) return;
    if (at >= 0) changes[at].classList.remove("at");
    at = at < 0 ? (by > 0 ? 0 : changes.length - 1) : (at + by + changes.length) % changes.length;
    changes[at].classList.add("at");
    const to = changes[at].transform.baseVal[0].matrix;
    scale = Math.max(scale, 0.9);
    x = to.e - view.clientWidth / scale / 2;
    y = to.f - view.clientHeight / scale / 2;
    show();
  };
  const actions = {
    in: () => zoom(1.3, view.clientWidth / 2, view.clientHeight / 2),
    out: () => zoom(1 / 1.3, view.clientWidth / 2, view.clientHeight / 2),
    fit: fitAll,
    next: () => step(1),
    previous: () => step(-1),
  };
  for (const button of panel.querySelectorAll("button")) button.onclick = actions[button.dataset.do];

  view.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return; // the page scrolls
    event.preventDefault();
    const box = view.getBoundingClientRect();
    zoom(Math.exp(-event.deltaY / 300), event.clientX - box.left, event.clientY - box.top);
  }, { passive: false });
  view.addEventListener("dblclick", (event) => {
    const box = view.getBoundingClientRect();
    zoom(event.shiftKey ? 0.5 : 2, event.clientX - box.left, event.clientY - box.top);
  });
  view.addEventListener("pointerdown", (event) => {
    if (event.button === 0) view.setPointerCapture(event.pointerId);
  });
  view.addEventListener("pointermove", (event) => {
    if (!(event.buttons & 1)) return;
    x -= event.movementX / scale;
    y -= event.movementY / scale;
    tip.style.display = "none";
    show();
  });

  const edges = new Map(); // of each node
  for (const edge of svg.querySelectorAll(".e")) {
    for (const end of [edge.dataset.a, edge.dataset.b]) {
      if (!edges.has(end)) edges.set(end, []);
      edges.get(end).push(edge);
    }
  }
  for (const node of svg.querySelectorAll(".n")) {
    const title = node.querySelector("title");
    const text = title.textContent;
    title.remove(); // the browser's own box would come on top of ours
    const light = (on) => (edges.get(node.dataset.k) || []).forEach((e) => e.classList.toggle("hot", on));
    node.addEventListener("pointerenter", () => {
      tip.textContent = text;
      tip.style.display = "block";
      light(true);
    });
    node.addEventListener("pointermove", (event) => {
      tip.style.left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8) + "px";
      tip.style.top = Math.min(event.clientY + 16, innerHeight - tip.offsetHeight - 8) + "px";
    });
    node.addEventListener("pointerleave", () => {
      tip.style.display = "none";
      light(false);
    });
  }
  addEventListener("resize", show);
  start();
}
