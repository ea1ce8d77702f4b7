import type { ChatDelta } from '../types.ts';
import type { Source } from './source.ts';

/** A tool that may be called. */
export interface CallableTool {
  readonly name: string;
  readonly parameters?: Readonly<Record<string, unknown>>;
}

/** Collects what an answer was found to mean. White space that touches reasoning or calls is dropped. */
export class Sink {
  readonly tools: ReadonlyMap<string, CallableTool>;
  readonly #source: Source;
  readonly #newId: () => string;
  #deltas: ChatDelta[] = [];
  /** Calls that were announced. */
  calls = 0;
  /** Since a call or reasoning there was white space only. */
  #trimming = false;
  /** White space that is dropped when a call follows. */
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

  /** What follows has nothing to do with the white space before. */
  cut(): void {
    this.#pending = '';
    this.#trimming = true;
  }

  /** Announces a call: from here on nothing of it is given back as content. */
  call(name: string, id?: string): void {
    this.cut();
    this.#source.release();
    const index = this.calls++;
    this.#deltas.push({ type: 'tool_call', index, id: id ?? this.#newId(), name });
  }

  /** A piece of the latest call's arguments. */
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

  /** The answer is over: white space at its end is part of it, unless a call or reasoning stood before. */
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
