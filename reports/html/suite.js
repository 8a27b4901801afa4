
{
  const form = document.getElementById("filter");
  const words = document.getElementById("filter-words");
  const count = document.getElementById("filter-count");
  const boxes = [...form.querySelectorAll("input[type=checkbox]")];
  const filter = () => {
    const terms = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const states = new Set(boxes.filter(box => box.checked && box.value !== "new").map(box => box.value));
    const onlyNew = boxes.some(box => box.checked && box.value === "new");
    let shown = 0;
    for (const element of document.querySelectorAll("[data-state]")) {
      const text = element.dataset.text.toLowerCase();
      const fits = terms.every(word => text.includes(word)) && states.has(element.dataset.state) && (!onlyNew || "new" in element.dataset);
      element.hidden = !fits;
      shown += fits && element.tagName === "LI";
    }
    for (const row of document.querySelectorAll(".grid-of-cells tbody tr")) {
      row.hidden = !row.querySelector("[data-state]:not([hidden])");
    }
    count.textContent = `${shown} shown`;
  };
  form.hidden = false;
  form.addEventListener("input", filter);
  form.addEventListener("submit", event => event.preventDefault());
}
