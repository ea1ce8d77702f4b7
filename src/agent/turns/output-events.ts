import { stripEscapes } from '../tools/sandbox/command-output.ts';
import type { NewTurnEvent } from '../shapes/turn-event.ts';

/** How long output waits for more. */
const flushDelayMs = 250;
/** Characters of the output of one call that become events. */
const maxText = 65_536;
/** An escape sequence whose end may still come. */
// oxlint-disable-next-line no-control-regex -- escape sequences of terminals
const openEscape = /\u001b(?:\[[0-?]*[ -/]*|\][^\u0007\u001b]{0,200})?$/;

/** Makes events of what a call prints while it runs. They are for people: the model gets the result. */
export class OutputEvents {
  readonly #callId: string;
  readonly #emit: (event: NewTurnEvent) => Promise<void>;
  #text = '';
  #emitted = 0;
  #timer: NodeJS.Timeout | undefined;
  #lastEvent: Promise<void> = Promise.resolve();
  #hasEnded = false;

  constructor(callId: string, emit: (event: NewTurnEvent) => Promise<void>) {
    this.#callId = callId;
    this.#emit = emit;
  }

  readonly add = (text: string): void => {
    if (this.#hasEnded || text === '') return;
    const left = maxText - this.#emitted - this.#text.length;
    if (text.length <= left) {
      this.#text += text;
      this.#timer ??= setTimeout(() => this.#flush(), flushDelayMs);
      return;
    }
    this.#text += text.slice(0, left).replace(/[\uD800-\uDBFF]$/, '');
    this.#flush('\n[the rest is shown when the call has ended]\n');
    this.#hasEnded = true;
  };

  /** Resolves when the last event is stored. */
  async end(): Promise<void> {
    if (!this.#hasEnded) this.#flush();
    this.#hasEnded = true;
    await this.#lastEvent;
  }

  #flush(note = ''): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const open = openEscape.exec(this.#text)?.[0] ?? '';
    const whole = this.#text.slice(0, this.#text.length - open.length);
    this.#text = open;
    this.#emitted += whole.length;
    const text = stripEscapes(whole) + note;
    if (text === '') return;
    // A failure of the database ends the call with its result, which cannot be stored either.
    this.#lastEvent = this.#emit({ type: 'tool_output', call_id: this.#callId, text }).catch(() => undefined);
  }
}
