import type { TurnEvent } from '../client/index.ts';
import { printableLine, printableLines } from '../terminal/lines.ts';
import type { Paint, Style } from '../terminal/style.ts';
import { truncate } from '../terminal/text.ts';
import { pluralize } from '../words/count.ts';

const maxResultLines = 4;

/** Writes the events of a task as text. */
export class EventText {
  readonly #write: (text: string) => void;
  readonly #paint: Paint;
  readonly #width: number;
  readonly #more: ((output: string) => string) | undefined;
  /** What the line at the end is part of. */
  #open: 'none' | 'text' | 'reasoning' | 'output' = 'none';
  /** The call whose output was shown while it ran. */
  #streamedCall: string | undefined;
  #hasText = false;

  /** @param more says how to see an output whole, which is cut; without it, outputs are shown whole */
  constructor(
    write: (text: string) => void,
    { paint, width }: { readonly paint: Paint; readonly width: number },
    more?: (output: string) => string,
  ) {
    this.#write = write;
    this.#paint = paint;
    this.#width = Math.min(width, 160);
    this.#more = more;
  }

  add(event: TurnEvent): void {
    switch (event.type) {
      case 'message':
        this.line(this.#paint('strong', `> ${printableLines(event.prompt)}`));
        break;
      case 'turn':
        this.#hasText = false;
        break;
      case 'delta':
      case 'reasoning': {
        const kind = event.type === 'delta' ? 'text' : 'reasoning';
        if (this.#open !== kind) this.end();
        const text = printableLines(event.text);
        this.#write(kind === 'text' ? text : this.#paint('dim', text));
        this.#open = kind;
        this.#hasText ||= kind === 'text';
        break;
      }
      case 'tool_call':
        this.line(
          `${this.#paint('note', this.#short(printableLine(event.tool)))} ${this.#short(argumentsText(event.arguments))}`,
        );
        break;
      case 'tool_output': {
        if (this.#open !== 'output') this.end();
        this.#write(this.#paint('dim', printableLines(event.text)));
        // A whole line is not continued.
        this.#open = event.text.endsWith('\n') ? 'none' : 'output';
        this.#streamedCall = event.call_id;
        break;
      }
      case 'tool_result': {
        // What was streamed is not repeated; its first line says how it ended.
        const [firstLine = ''] = event.output.split('\n', 1);
        const isStreamed = this.#streamedCall !== undefined && event.call_id === this.#streamedCall;
        const output = isStreamed ? firstLine : event.output;
        this.#addOutput(output, event.ok ? 'dim' : 'bad');
        break;
      }
      case 'compacted':
        this.line(this.#paint('dim', `(${event.messages} older messages were summarized to make room)`));
        break;
      case 'resumed':
        this.line(this.#paint('warn', 'The host was started again and goes on.'));
        break;
      case 'retrying':
        this.#hasText = false;
        this.line(this.#paint('warn', `${printableLine(event.message)} Trying again ...`));
        break;
      case 'answer':
        // It was streamed, unless the model sent it whole.
        if (event.text === '') this.line(this.#paint('warn', '(The model answered nothing.)'));
        else if (!this.#hasText) this.line(printableLines(event.text));
        this.end();
        break;
      case 'aborted':
        this.line(
          this.#paint(
            'bad',
            `${event.reason === 'cancelled' ? 'Stopped' : 'Ended'}: ${printableLine(event.message)}`,
          ),
        );
        break;
      case 'start':
      case 'staged':
      case 'waiting':
      case 'usage':
        break;
    }
  }

  /** Writes a whole line. */
  line(text: string): void {
    this.end();
    this.#write(`${text}\n`);
  }

  /** Ends an open line. */
  end(): void {
    if (this.#open !== 'none') this.#write('\n');
    this.#open = 'none';
  }

  #addOutput(output: string, style: Style): void {
    const lines = printableLines(output.trimEnd()).split('\n');
    const more = this.#more;
    const shown = more ? lines.slice(0, maxResultLines).map((line) => this.#short(line)) : lines;
    const isCut = shown.some((line, index) => line !== lines[index]);
    if (more && (isCut || lines.length > maxResultLines)) {
      const left = lines.length - shown.length;
      shown.push(`... ${left > 0 ? `${pluralize(left, 'more line')}: ` : ''}${more(output)}`);
    }
    for (const line of shown) this.line(this.#paint(style, `  ${line}`));
  }

  #short(text: string): string {
    return truncate(text, this.#width - 4);
  }
}

/** The arguments of a call in one line. */
function argumentsText(value: unknown): string {
  if (typeof value !== 'object' || value === null) return printableLine(JSON.stringify(value) ?? '');
  return Object.entries(value)
    .map(
      ([name, one]) =>
        `${printableLine(name)}: ${printableLine(typeof one === 'string' ? one : (JSON.stringify(one) ?? ''))}`,
    )
    .join(', ');
}
