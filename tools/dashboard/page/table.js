// @ts-check
// Tables, of which a head that is pressed sorts the rows.

import {Component, html, useState} from "./vendor/preact.js";
import {visible} from "./text.js";

/**
 * @typedef {{text: unknown, mark?: string, sort?: number}} Cell
 * @typedef {[string, "text" | "number"][]} Columns
 */

/** @param {Cell} a @param {Cell} b */
function compare(a, b) {
  const left = a.sort ?? a.text, right = b.sort ?? b.text;
  if (typeof left === "number" && typeof right === "number") return left - right;
  return String(left).localeCompare(String(right));
}

/** A row, of which Preact looks at nothing until a cell says something else. */
class Row extends Component {
  shouldComponentUpdate(/** @type {{cells: Cell[]}} */ {cells}) {
    const before = /** @type {{cells: Cell[]}} */ (/** @type {any} */ (this).props).cells;
    return cells.length !== before.length || cells.some(({text, mark}, i) =>
      text !== before[i].text || mark !== before[i].mark);
  }

  render(/** @type {{cells: Cell[], columns: Columns}} */ {cells, columns}) {
    return html`<tr>${cells.map(({text, mark}, i) => html`
      <td class=${columns[i][1] + (mark ? ` ${mark}` : "")}>${visible(text)}</td>`)}</tr>`;
  }
}

/** @param {{columns: Columns, rows: Cell[][], none: string, label: string, sortable?: boolean,
 *   twin?: string}} properties */
export function Table({columns, rows, none, label, sortable = false, twin}) {
  const [by, setBy] = useState(/** @type {[number, number] | null} */ (null));
  const shown = by ? [...rows].sort((a, b) => by[1] * compare(a[by[0]], b[by[0]])) : rows;
  const press = (/** @type {number} */ i) =>
    setBy(!by || by[0] !== i ? [i, 1] : by[1] > 0 ? [i, -1] : null);
  const order = (/** @type {number} */ i) =>
    !by || by[0] !== i ? "none" : by[1] > 0 ? "ascending" : "descending";
  return html`
    <div class="wide" tabindex="0" role="region" aria-label=${label} data-twin=${twin}>
      <table>
        <thead><tr>${columns.map(([name, kind], i) => html`
          <th scope="col" class=${kind} aria-sort=${sortable ? order(i) : undefined}>${sortable ?
            html`<button type="button" onClick=${() => press(i)}>${name}</button>` : name}</th>`)}
        </tr></thead>
        <tbody>${shown.length === 0 ?
          html`<tr><td colspan=${columns.length}>${none}</td></tr>` :
          shown.map((cells) => html`<${Row} cells=${cells} columns=${columns} />`)}
        </tbody>
      </table>
    </div>`;
}
