import { stripVTControlCharacters } from 'node:util';
import type { Terminal } from '../terminal/terminal.ts';

const enter = '\u001b[?1049h\u001b[?25l\u001b[?7l';
const leave = '\u001b[?7h\u001b[?25h\u001b[?1049l';

/** Alternate screen of a terminal, redrawn in place. `close` restores the previous contents. */
export class Screen {
  readonly #out: Terminal;
  #open = false;
  #lines: readonly string[] = [];
  #due: NodeJS.Timeout | undefined;
  readonly #onResize = () => this.#draw();

  constructor(out: Terminal) {
    this.#out = out;
  }

  /** Schedules a redraw; several calls in a row cause one. */
  show(lines: readonly string[]): void {
    this.#lines = lines;
    if (!this.#open) {
      this.#open = true;
      this.#out.write(enter);
      this.#out.on('resize', this.#onResize);
    }
    this.#due ??= setTimeout(() => this.#draw(), 15);
  }

  #draw(): void {
    clearTimeout(this.#due);
    this.#due = undefined;
    if (!this.#open) return;
    const rows = this.#out.rows || 24;
    const hidden = this.#lines.length - rows;
    const shown =
      hidden > 0 ? [...this.#lines.slice(0, rows - 1), `… ${hidden + 1} more lines`] : this.#lines;
    // Clear after each line instead of the whole screen, to avoid flicker.
    this.#out.write(`\u001b[H${shown.map((line) => `${line}\u001b[K`).join('\r\n')}\u001b[J`);
  }

  /** Restores the terminal. @param keepContents whether to print the last contents to the normal screen */
  close(last = true): void {
    if (!this.#open) return;
    clearTimeout(this.#due);
    this.#open = false;
    this.#out.removeListener('resize', this.#onResize);
    this.#out.write(leave);
    if (last && this.#lines.some((line) => stripVTControlCharacters(line) !== ''))
      this.#out.write(`${this.#lines.join('\n')}\n`);
  }
}
