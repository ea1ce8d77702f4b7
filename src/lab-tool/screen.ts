import { stripVTControlCharacters } from 'node:util';
import type { Terminal } from '../terminal/terminal.ts';

const enterSequence = '\u001b[?1049h\u001b[?25l\u001b[?7l';
const leaveSequence = '\u001b[?7h\u001b[?25h\u001b[?1049l';

/** Alternate screen of a terminal, redrawn in place. `close` restores the previous contents. */
export class Screen {
  readonly #out: Terminal;
  #isOpen = false;
  #lines: readonly string[] = [];
  #redrawTimer: NodeJS.Timeout | undefined;
  readonly #onResize = () => this.#draw();

  constructor(out: Terminal) {
    this.#out = out;
  }

  /** Schedules a redraw; several calls in a row cause one. */
  show(lines: readonly string[]): void {
    this.#lines = lines;
    if (!this.#isOpen) {
      this.#isOpen = true;
      this.#out.write(enterSequence);
      this.#out.on('resize', this.#onResize);
    }
    this.#redrawTimer ??= setTimeout(() => this.#draw(), 15);
  }

  #draw(): void {
    clearTimeout(this.#redrawTimer);
    this.#redrawTimer = undefined;
    if (!this.#isOpen) return;
    const rows = this.#out.rows || 24;
    const hiddenCount = this.#lines.length - rows;
    const visibleLines =
      hiddenCount > 0 ? [...this.#lines.slice(0, rows - 1), `… ${hiddenCount + 1} more lines`] : this.#lines;
    // Clear after each line instead of the whole screen, to avoid flicker.
    this.#out.write(`\u001b[H${visibleLines.map((line) => `${line}\u001b[K`).join('\r\n')}\u001b[J`);
  }

  /** Restores the terminal. @param keepContents whether to print the last contents to the normal screen */
  close(keepContents = true): void {
    if (!this.#isOpen) return;
    clearTimeout(this.#redrawTimer);
    this.#isOpen = false;
    this.#out.removeListener('resize', this.#onResize);
    this.#out.write(leaveSequence);
    if (keepContents && this.#lines.some((line) => stripVTControlCharacters(line) !== ''))
      this.#out.write(`${this.#lines.join('\n')}\n`);
  }
}
