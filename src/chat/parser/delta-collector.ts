import type { ChatDelta } from '../types.ts';
import type { TextStream } from './text-stream.ts';

/** A tool that the model may call. */
export interface CallableTool {
  readonly name: string;
  readonly parameters?: Readonly<Record<string, unknown>>;
}

/** Collects the deltas of a parsed answer. Drops white space next to reasoning and calls. */
export class DeltaCollector {
  readonly tools: ReadonlyMap<string, CallableTool>;
  readonly #stream: TextStream;
  readonly #createId: () => string;
  #deltas: ChatDelta[] = [];
  /** Number of calls started. */
  callCount = 0;
  /** Whether only white space came since the last call or reasoning. */
  #isTrimming = false;
  /** White space that is dropped if a call follows. */
  #pendingWhitespace = '';

  constructor(stream: TextStream, tools: ReadonlyMap<string, CallableTool>, createId: () => string) {
    this.#stream = stream;
    this.tools = tools;
    this.#createId = createId;
  }

  addContent(text: string): void {
    let rest = this.#pendingWhitespace + text;
    this.#pendingWhitespace = '';
    if (this.#isTrimming) rest = rest.trimStart();
    const end = this.tools.size > 0 ? rest.trimEnd().length : rest.length;
    this.#pendingWhitespace = rest.slice(end);
    if (end === 0) return;
    this.#isTrimming = false;
    this.#add('content', rest.slice(0, end));
  }

  addReasoning(text: string): void {
    let rest = this.#pendingWhitespace + text;
    if (this.#isTrimming) rest = rest.trimStart();
    const trimmed = rest.trimEnd();
    this.#pendingWhitespace = rest.slice(trimmed.length);
    if (trimmed === '') return;
    this.#isTrimming = false;
    this.#add('reasoning', trimmed);
  }

  /** Drops the white space before and after this position. */
  dropWhitespace(): void {
    this.#pendingWhitespace = '';
    this.#isTrimming = true;
  }

  /** Starts a call. Its text can no longer become content. */
  startCall(name: string, id?: string): void {
    this.dropWhitespace();
    this.#stream.release();
    const index = this.callCount++;
    this.#deltas.push({ type: 'tool_call', index, id: id ?? this.#createId(), name });
  }

  /** Adds a part of the last call's arguments. */
  addArguments(text: string): void {
    if (text === '') return;
    const last = this.#deltas.at(-1);
    const index = this.callCount - 1;
    if (last?.type === 'tool_arguments' && last.index === index) {
      this.#deltas[this.#deltas.length - 1] = { ...last, text: last.text + text };
    } else {
      this.#deltas.push({ type: 'tool_arguments', index, text });
    }
  }

  /** Ends the answer. White space at its end is content, unless a call or reasoning precedes it. */
  end(): void {
    if (this.#pendingWhitespace !== '' && !this.#isTrimming) this.#add('content', this.#pendingWhitespace);
    this.#pendingWhitespace = '';
  }

  takeDeltas(): ChatDelta[] {
    const deltas = this.#deltas;
    this.#deltas = [];
    return deltas;
  }

  #add(type: 'content' | 'reasoning', text: string): void {
    const last = this.#deltas.at(-1);
    if (last?.type === type) this.#deltas[this.#deltas.length - 1] = { type, text: last.text + text };
    else this.#deltas.push({ type, text });
  }
}
