import { isRecord, type Json } from '../../util/json.ts';
import type { AnswerEvent, FinishReason, TokenLogprob } from '../core/answer.ts';
import { markSeal } from '../core/seals.ts';

const records = (list: unknown): Json[] => (Array.isArray(list) ? list.filter(isRecord) : []);
const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');

/** Reads one output item: its deltas, and at the end whatever no delta contained. */
export class ItemReader {
  /** Type of the item, as declared or inferred from its deltas. */
  type: string | undefined;
  /** Index of the call among the calls, from 0; undefined for other items. */
  readonly #call: number | undefined;
  /** Indices of the parts that had deltas. */
  readonly #said = new Set<number>();
  /** The form of the first reasoning delta; the other form is ignored, because some servers send both. */
  #thoughts: 'summary' | 'content' | undefined;
  #done = false;

  constructor(type: unknown, call?: number) {
    this.type = typeof type === 'string' ? type : undefined;
    this.#call = call;
  }

  begin(item: Json): AnswerEvent[] {
    if (this.#call === undefined) return [];
    const id = textOf(item['call_id'] ?? item['id']);
    return [{ type: 'tool_call', index: this.#call, id, name: textOf(item['name']) }];
  }

  text(place: number, text: string, logprobs?: unknown): AnswerEvent[] {
    this.type ??= 'message';
    this.#said.add(place);
    const tokens = records(logprobs).map(readLogprob);
    if (text === '' && tokens.length === 0) return [];
    return [{ type: 'text', text, ...(tokens.length > 0 ? { logprobs: tokens } : {}) }];
  }

  refusal(place: number, text: string): AnswerEvent[] {
    this.type ??= 'message';
    this.#said.add(place);
    return text === '' ? [] : [{ type: 'refusal', text }];
  }

  /** Parts of a summary are separated by an empty line. */
  thought(form: 'summary' | 'content', place: number, text: string): AnswerEvent[] {
    this.type ??= 'reasoning';
    this.#thoughts ??= form;
    if (this.#thoughts !== form || text === '') return [];
    const gap = this.#said.size > 0 && !this.#said.has(place) ? '\n\n' : '';
    this.#said.add(place);
    return [{ type: 'reasoning', text: gap + text }];
  }

  arguments(text: string): AnswerEvent[] {
    if (this.#call === undefined || text === '') return [];
    this.#said.add(0);
    return [{ type: 'tool_arguments', index: this.#call, text }];
  }

  /** Reads the complete item: parts without deltas, and members that only the complete item has. */
  end(item: Json): AnswerEvent[] {
    if (this.#done) return [];
    this.#done = true;
    switch (item['type']) {
      case 'message':
        return records(item['content']).flatMap((part, place) => this.#part(part, place));
      case 'function_call':
        return this.#said.size > 0 ? [] : this.arguments(textOf(item['arguments']));
      case 'reasoning':
        return [...this.#trace(item), ...sealOf(item)];
      default:
        return [];
    }
  }

  #part(part: Json, place: number): AnswerEvent[] {
    if (this.#said.has(place)) return [];
    if (part['type'] === 'refusal') return this.refusal(place, textOf(part['refusal']));
    return part['type'] === 'output_text' ? this.text(place, textOf(part['text']), part['logprobs']) : [];
  }

  #trace(item: Json): AnswerEvent[] {
    if (this.#said.size > 0) return [];
    const content = records(item['content']);
    const form = content.length > 0 ? 'content' : 'summary';
    const parts = form === 'content' ? content : records(item['summary']);
    return parts.flatMap((part, place) => this.thought(form, place, textOf(part['text'])));
  }
}

function sealOf(item: Json): AnswerEvent[] {
  const sealed = textOf(item['encrypted_content']);
  if (sealed === '') return [];
  const data = markSeal('openai', sealed);
  return [{ type: 'sealed_reasoning', data, ...(typeof item['id'] === 'string' ? { id: item['id'] } : {}) }];
}

function readLogprob(entry: Json): TokenLogprob {
  return { ...readToken(entry), top_logprobs: records(entry['top_logprobs']).map(readToken) };
}

/** Streams omit the bytes. */
const readToken = ({ token, logprob, bytes }: Json) => ({
  token: textOf(token),
  logprob: typeof logprob === 'number' ? logprob : 0,
  bytes: Array.isArray(bytes) ? (bytes as number[]) : null,
});

/** The finish event of a completed or incomplete response. */
export function finishOf(response: Json, calls: number): AnswerEvent {
  const details = response['incomplete_details'];
  const why = isRecord(details) ? details['reason'] : undefined;
  const detail = typeof why === 'string' ? { detail: why } : {};
  if (response['status'] !== 'incomplete')
    return { type: 'finish', reason: calls > 0 ? 'tool_calls' : 'stop', ...detail };
  const reason: FinishReason = why === 'content_filter' ? 'content_filter' : 'length';
  return { type: 'finish', reason, ...detail };
}
