import type { ChatDelta } from '../types.ts';
import type { Source } from './source.ts';

/** A tool that the model may call. */
export interface CallableTool {
  readonly name: string;
  readonly parameters?: Readonly<Record<string, unknown>>;
}

/** Collects the deltas of a parsed answer. Drops white space next to reasoning and calls. */
export class Sink {
  readonly tools: ReadonlyMap<string, CallableTool>;
  readonly #source: Source;
  readonly #newId: () => string;
  #deltas: ChatDelta[] = [];
  /** Number of calls started. */
  calls = 0;
  /** Whether only white space came since the last call or reasoning. */
  #trimming = false;
  /** White space that is dropped if a call follows. */
  #pending = '';

  constructor(source: Source, tools: ReadonlyMap<string, CallableTool>, newId: () => string) {
    this.#source = source;
    this.tools = tools;
    this.#newId = newId;
  }

  content(text: string): void {
    let rest = this.#pending + text;
    this.#pending = '';
    if (this.#trimming) rest = rest.trimStart();
    const end = this.tools.size > 0 ? rest.trimEnd().length : rest.length;
    this.#pending = rest.slice(end);
    if (end === 0) return;
    this.#trimming = false;
    this.#add('content', rest.slice(0, end));
  }

  reasoning(text: string): void {
    let rest = this.#pending + text;
    if (this.#trimming) rest = rest.trimStart();
    const kept = rest.trimEnd();
    this.#pending = rest.slice(kept.length);
    if (kept === '') return;
    this.#trimming = false;
    this.#add('reasoning', kept);
  }

  /** Drops the white space before and after this position. */
  cut(): void {
    this.#pending = '';
    this.#trimming = true;
  }

  /** Starts a call. Its text can no longer become content. */
  call(name: string, id?: string): void {
    this.cut();
    this.#source.release();
    const index = this.calls++;
    this.#deltas.push({ type: 'tool_call', index, id: id ?? this.#newId(), name });
  }

  /** Adds a part of the last call's arguments. */
  arguments(text: string): void {
    if (text === '') return;
    const last = this.#deltas.at(-1);
    const index = this.calls - 1;
    if (last?.type === 'tool_arguments' && last.index === index) {
      this.#deltas[this.#deltas.length - 1] = { ...last, text: last.text + text };
    } else {
      this.#deltas.push({ type: 'tool_arguments', index, text });
    }
  }

  /** Ends the answer. White space at its end is content, unless a call or reasoning precedes it. */
  end(): void {
    if (this.#pending !== '' && !this.#trimming) this.#add('content', this.#pending);
    this.#pending = '';
  }

  take(): ChatDelta[] {
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
