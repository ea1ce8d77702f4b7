import { createInterface, type Interface } from 'node:readline';
import { text as readText } from 'node:stream/consumers';
import type { Terminal } from '../terminal/terminal.ts';
import { sleep } from '../util/sleep.ts';

/** A line may be several that were pasted or continued; `isEarly`: it was written before the question was shown. */
type Line = { readonly line: string; readonly isEarly?: boolean };
/** An answer of the person: a line, the end of the input, Ctrl-C, or nothing because the question was taken back. */
export type Answer = Line | 'end' | 'interrupted' | 'withdrawn';

export interface InputStream extends NodeJS.ReadableStream {
  readonly isTTY?: boolean;
  setRawMode?(isRaw: boolean): unknown;
}

interface Question {
  readonly text: string;
  /** A message may have several lines; a decision has one, which is written after the question is shown. */
  readonly kind: 'message' | 'decision';
  readonly resolve: (answer: Answer) => void;
}

/** Terminals mark pasted text while this is on. */
const pasteMarks = { on: '\u001b[?2004h', off: '\u001b[?2004l' };
/** How long what was typed before a question takes to arrive. */
const typedAheadMs = 30;
const continuation = '. ';

/** Asks the person at the terminal, or reads a pipe. */
export class Input {
  readonly #stdin: InputStream;
  readonly #stdout: Terminal;
  /** Whether each line of a pipe is an answer; otherwise a pipe has none. */
  readonly #hasLines: boolean;
  /** Lines of a pipe that were not asked for yet. */
  #lines: AsyncIterator<string> | undefined;
  #reader: Interface | undefined;
  /** Newest first: what the Up key brings back. */
  readonly #messages: string[] = [];
  /** The reader's own list, with every line. */
  #history: string[] = [];
  #question: Question | undefined;
  #isPasting = false;
  /** Lines of a message whose last line is not there yet. */
  #begun: string[] = [];
  /** Messages that were written before they were asked for. */
  #early: string[] = [];

  /** @param onExit registers what runs when the process ends */
  constructor(
    stdin: InputStream,
    stdout: Terminal,
    { hasLines, onExit }: { readonly hasLines: boolean; readonly onExit: (listener: () => void) => void },
  ) {
    this.#stdin = stdin;
    this.#stdout = stdout;
    this.#hasLines = hasLines;
    if (!this.isTerminal) return;
    // The keypress events are those of the readers below.
    stdin.on('keypress', (_text: unknown, key: { readonly name?: string }) => {
      if (key.name === 'paste-start') this.#isPasting = true;
      if (key.name === 'paste-end') this.#isPasting = false;
    });
    onExit(() => {
      if (this.#question) this.#markPastes('off');
    });
  }

  get isTerminal(): boolean {
    return this.#stdin.isTTY === true;
  }

  /** Whether a conversation takes place: at the terminal, or line by line. */
  get isDialog(): boolean {
    return this.isTerminal || this.#hasLines;
  }

  /** The whole text of a pipe. */
  async readAll(): Promise<string> {
    return await readText(this.#stdin);
  }

  /** @param withdrawn aborted when the answer is no longer needed */
  async ask(text: string, kind: Question['kind'], withdrawn?: AbortSignal): Promise<Answer> {
    if (withdrawn?.aborted) return 'withdrawn';
    return this.isTerminal ? await this.#askTerminal(text, kind, withdrawn) : await this.#readLine(text);
  }

  /** In between two questions, Ctrl-C is a signal and what is typed stays in the terminal. */
  async #askTerminal(
    text: string,
    kind: Question['kind'],
    withdrawn: AbortSignal | undefined,
  ): Promise<Answer> {
    const reader = (this.#reader ??= this.#open());
    this.#stdin.setRawMode?.(true);
    reader.resume();
    try {
      if (kind === 'decision') await sleep(typedAheadMs);
      const line = kind === 'message' ? this.#early.shift() : undefined;
      if (line !== undefined) {
        this.#stdout.write(`${text}${line}\n`);
        return { line, isEarly: true };
      }
      const answer = await new Promise<Answer>((resolve) => {
        this.#question = { text, kind, resolve };
        if (withdrawn?.aborted) resolve('withdrawn');
        withdrawn?.addEventListener('abort', () => resolve('withdrawn'), { once: true });
        this.#markPastes('on');
        reader.setPrompt(text);
        reader.prompt(true);
      });
      if (answer === 'withdrawn') this.#clear();
      return answer;
    } finally {
      if (this.#question) this.#markPastes('off');
      this.#question = undefined;
      // After Ctrl-D it is closed.
      this.#reader?.pause();
      this.#stdin.setRawMode?.(false);
    }
  }

  #open(): Interface {
    const reader = createInterface({
      input: this.#stdin,
      output: this.#stdout,
      terminal: true,
      crlfDelay: Number.POSITIVE_INFINITY,
      history: [...this.#messages],
      historySize: 1000,
    });
    reader.on('history', (history) => {
      this.#history = history;
    });
    reader.on('line', (line) => this.#addLine(reader, line));
    reader.on('SIGINT', () => {
      const question = this.#question;
      if (question?.kind !== 'message' || (reader.line === '' && this.#begun.length === 0)) {
        question?.resolve('interrupted');
        return;
      }
      this.#clear();
      reader.setPrompt(question.text);
      reader.prompt();
    });
    reader.on('close', () => {
      this.#reader = undefined;
      this.#question?.resolve('end');
    });
    return reader;
  }

  #addLine(reader: Interface, text: string): void {
    // A line of several, from the history.
    const line = text.replaceAll('\r', '\n');
    const isContinued = line.endsWith('\\') && this.#question?.kind !== 'decision';
    if (this.#isPasting || isContinued) {
      this.#begun.push(this.#isPasting ? line : line.slice(0, -1));
      reader.setPrompt(continuation);
      reader.prompt();
      return;
    }
    const whole = [...this.#begun, line].join('\n');
    this.#begun = [];
    const question = this.#question;
    if (question?.kind !== 'decision' && whole.trim() !== '' && whole !== this.#messages[0])
      this.#messages.unshift(whole);
    this.#history.splice(0, this.#history.length, ...this.#messages);
    if (!question) {
      this.#early.push(whole);
      return;
    }
    // Further lines of the same write are not the answer to this question.
    this.#question = undefined;
    this.#markPastes('off');
    question.resolve({ line: whole });
  }

  /** Removes what was typed and not sent. */
  #clear(): void {
    this.#begun = [];
    for (const name of ['e', 'u']) this.#reader?.write(null, { ctrl: true, name });
    this.#stdout.write('\n');
  }

  #markPastes(state: keyof typeof pasteMarks): void {
    if (this.#stdout.isTTY === true) this.#stdout.write(pasteMarks[state]);
  }

  async #readLine(question: string): Promise<Answer> {
    if (question !== '') this.#stdout.write(question);
    // The text of a pipe is a prompt, and nobody is there who answers.
    if (this.#hasLines)
      this.#lines ??= createInterface({ input: this.#stdin, terminal: false })[Symbol.asyncIterator]();
    const next = await this.#lines?.next();
    const line = next?.done === false ? next.value : undefined;
    if (question !== '') this.#stdout.write(`${line ?? ''}\n`);
    return line === undefined ? 'end' : { line };
  }
}
