// The page's behaviour: draws charts as they come into view, hides allocators, changes the theme.
"use strict";
(() => {
  const specs = JSON.parse(document.getElementById("specs").textContent);
  const themes = JSON.parse(document.getElementById("themes").textContent);
  const root = document.documentElement;
  const toggle = document.getElementById("theme");
  const boxes = [...document.querySelectorAll("#filter input")];
  const system = matchMedia("(prefers-color-scheme: dark)");
  const views = new Map();  // a chart's element -> its view, once it is drawn

  const theme = () => root.dataset.theme || (system.matches ? "dark" : "light");
  const hidden = () => boxes.filter((box) => !box.checked).map((box) => box.dataset.name);

  async function draw(element) {
    const options = {
      actions: false, renderer: "svg", config: themes[theme()],
    };
    const drawn = await vegaEmbed(element, structuredClone(specs[element.dataset.spec]), options);
    views.get(element)?.finalize();
    views.set(element, drawn.view);
    await drawn.view.signal("hidden", hidden()).runAsync();
  }

  function showTheme() {
    toggle.setAttribute("aria-pressed", String(theme() === "dark"));
    for (const element of views.keys()) draw(element);
  }

  function filter() {
    const rules = boxes.filter((box) => !box.checked)
      .map((box) => `[data-a="${box.value}"] { display: none; }`);
    document.getElementById("hidden").textContent = rules.join("\n");
    const names = hidden();
    for (const view of views.values()) view.signal("hidden", names).runAsync();
  }

  function save(name) {
    const text = document.getElementById(`csv-${name}`).textContent;
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    link.download = `${name}.csv`;
    link.click();
    URL.revokeObjectURL(link.href);
  }

  toggle.addEventListener("click", () => {
    root.dataset.theme = theme() === "dark" ? "light" : "dark";
    showTheme();
  });
  system.addEventListener("change", showTheme);
  boxes.forEach((box) => box.addEventListener("change", filter));
  document.getElementById("everyone").addEventListener("click", () => {
    boxes.forEach((box) => { box.checked = true; });
    filter();
  });
  for (const button of document.querySelectorAll("button.csv")) {
    button.addEventListener("click", () => save(button.dataset.csv));
  }

  const coming = new IntersectionObserver((entries) => {
    for (const entry of entries.filter((one) => one.isIntersecting)) {
      coming.unobserve(entry.target);
      draw(entry.target);
    }
  }, { rootMargin: "800px" });
  document.querySelectorAll(".chart").forEach((element) => coming.observe(element));
  showTheme();
  filter();  // a reloaded page may keep the boxes as they were
})();
