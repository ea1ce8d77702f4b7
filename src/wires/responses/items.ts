import { isRecord, type Json } from '../../util/json.ts';
import type { AnswerEvent, FinishReason, TokenLogprob } from '../core/answer.ts';
import { markSeal } from '../core/seals.ts';

const records = (list: unknown): Json[] => (Array.isArray(list) ? list.filter(isRecord) : []);
const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');

/** What is left to say of an item of the answer when it is whole. */
export class ItemReader {
  /** As the item says, or what was said of it shows. */
  type: string | undefined;
  /** The call's number among the calls, from 0; undefined for other items. */
  readonly #call: number | undefined;
  /** Places of the parts of which something has been said. */
  readonly #said = new Set<number>();
  /** The form in which thoughts come first is the one that counts: some servers tell them in two. */
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

  /** Parts of a summary stand apart by an empty line. */
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

  /** What was not said in pieces, and what only the whole item says. */
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

/** Streams leave the bytes out. */
const readToken = ({ token, logprob, bytes }: Json) => ({
  token: textOf(token),
  logprob: typeof logprob === 'number' ? logprob : 0,
  bytes: Array.isArray(bytes) ? (bytes as number[]) : null,
});

/** Why a response of status completed or incomplete ended. */
export function finishOf(response: Json, calls: number): AnswerEvent {
  const details = response['incomplete_details'];
  const why = isRecord(details) ? details['reason'] : undefined;
  const detail = typeof why === 'string' ? { detail: why } : {};
  if (response['status'] !== 'incomplete')
    return { type: 'finish', reason: calls > 0 ? 'tool_calls' : 'stop', ...detail };
  const reason: FinishReason = why === 'content_filter' ? 'content_filter' : 'length';
  return { type: 'finish', reason, ...detail };
}
