import { createInterface, type Interface } from 'node:readline';
import type { Terminal } from '../terminal/terminal.ts';

/** An answer of the person: a line, the end of the input, Ctrl-C, or nothing because the question was taken back. */
export type Answer = { readonly line: string } | 'end' | 'interrupted' | 'withdrawn';

/** Asks the person at the terminal, or reads lines of a pipe. */
export class Input {
  readonly #stdin: NodeJS.ReadableStream & { readonly isTTY?: boolean };
  readonly #stdout: Terminal;
  /** Lines of a pipe that were not asked for yet. */
  #lines: AsyncIterator<string> | undefined;

  constructor(stdin: NodeJS.ReadableStream & { readonly isTTY?: boolean }, stdout: Terminal) {
    this.#stdin = stdin;
    this.#stdout = stdout;
  }

  get isTerminal(): boolean {
    return this.#stdin.isTTY === true;
  }

  /** @param withdrawn aborted when the answer is no longer needed */
  async ask(question: string, withdrawn?: AbortSignal): Promise<Answer> {
    if (withdrawn?.aborted) return 'withdrawn';
    return this.isTerminal ? await this.#askTerminal(question, withdrawn) : await this.#readLine(question);
  }

  /** An interface for each question: in between, Ctrl-C is a signal and what is typed stays in the terminal. */
  async #askTerminal(question: string, withdrawn: AbortSignal | undefined): Promise<Answer> {
    const reader: Interface = createInterface({ input: this.#stdin, output: this.#stdout, terminal: true });
    try {
      return await new Promise<Answer>((resolve) => {
        withdrawn?.addEventListener('abort', () => resolve('withdrawn'), { once: true });
        reader.on('SIGINT', () => resolve('interrupted'));
        reader.on('close', () => resolve('end'));
        reader.question(question, (line) => resolve({ line }));
      });
    } finally {
      reader.close();
    }
  }

  async #readLine(question: string): Promise<Answer> {
    this.#lines ??= createInterface({ input: this.#stdin, terminal: false })[Symbol.asyncIterator]();
    if (question !== '') this.#stdout.write(question);
    const next = await this.#lines.next();
    if (question !== '') this.#stdout.write(next.done ? '\n' : `${next.value}\n`);
    return next.done ? 'end' : { line: next.value };
  }
}
