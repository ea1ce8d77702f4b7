import type { TurnEvent } from '../client/index.ts';
import { printable } from '../terminal/printable.ts';
import type { Paint } from '../terminal/style.ts';
import { truncate } from '../terminal/text.ts';

const maxResultLines = 4;

/** A text of several lines without control characters. */
export const printableLines = (text: string): string =>
  text
    .split('\n')
    .map((line) => line.split('\t').map(printable).join('\t'))
    .join('\n');

/** Writes the events of a task as text. */
export class EventText {
  readonly #write: (text: string) => void;
  readonly #paint: Paint;
  readonly #width: number;
  /** What the line at the end is part of. */
  #open: 'none' | 'text' | 'reasoning' | 'output' = 'none';
  /** The call whose output was shown while it ran. */
  #streamedCall: string | undefined;
  #hasText = false;

  constructor(
    write: (text: string) => void,
    { paint, width }: { readonly paint: Paint; readonly width: number },
  ) {
    this.#write = write;
    this.#paint = paint;
    this.#width = Math.min(width, 160);
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
          `${this.#paint('note', this.#short(printable(event.tool)))} ${this.#short(argumentsText(event.arguments))}`,
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
        const lines = event.output.trimEnd().split('\n');
        // Its first line says how it ended.
        if (event.call_id === this.#streamedCall) lines.splice(1);
        const shown = lines.slice(0, maxResultLines).map((line) => `  ${this.#short(printable(line))}`);
        if (lines.length > maxResultLines) shown.push(`  ... ${lines.length - maxResultLines} more lines`);
        for (const line of shown) this.line(this.#paint(event.ok ? 'dim' : 'bad', line));
        break;
      }
      case 'compacted':
        this.line(this.#paint('dim', `(${event.messages} older messages were summarized to make room)`));
        break;
      case 'resumed':
        this.line(this.#paint('warn', 'The host was started again and goes on.'));
        break;
      case 'answer':
        // It was streamed, unless the model sent it whole.
        if (!this.#hasText && event.text !== '') this.line(printableLines(event.text));
        this.end();
        break;
      case 'aborted':
        this.line(
          this.#paint(
            'bad',
            `${event.reason === 'cancelled' ? 'Stopped' : 'Ended'}: ${printable(event.message)}`,
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

  #short(text: string): string {
    return truncate(text, this.#width - 4);
  }
}

/** The arguments of a call in one line. */
function argumentsText(value: unknown): string {
  if (typeof value !== 'object' || value === null) return printable(JSON.stringify(value) ?? '');
  return Object.entries(value)
    .map(
      ([name, one]) =>
        `${printable(name)}: ${printable(typeof one === 'string' ? one : (JSON.stringify(one) ?? ''))}`,
    )
    .join(', ');
}

const diffStyles = { '+': 'good', '-': 'bad', '@': 'note' } as const;

/** A unified diff in colors. */
export const diffText = (diff: string, paint: Paint): string =>
  printableLines(diff.trimEnd())
    .split('\n')
    .map((line) => {
      const style = diffStyles[line[0] as keyof typeof diffStyles];
      return style === undefined ? line : paint(style, line);
    })
    .join('\n');
