import { isRecord, type Json } from '../../util/json.ts';
import type { AnswerEvent, FinishReason, TokenLogprob } from '../core/answer.ts';
import { tagSignature } from '../core/reasoning-signatures.ts';

const toRecords = (list: unknown): Json[] => (Array.isArray(list) ? list.filter(isRecord) : []);
const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');

/** Reads one output item: its deltas, and at the end whatever no delta contained. */
export class OutputItemReader {
  /** Type of the item, as declared or inferred from its deltas. */
  type: string | undefined;
  /** Index of the call among the calls, from 0; undefined for other items. */
  readonly #callIndex: number | undefined;
  /** Indices of the parts that had deltas. */
  readonly #partsWithDeltas = new Set<number>();
  /** The form of the first reasoning delta; the other form is ignored, because some servers send both. */
  #reasoningForm: 'summary' | 'content' | undefined;
  #isDone = false;

  constructor(type: unknown, call?: number) {
    this.type = typeof type === 'string' ? type : undefined;
    this.#callIndex = call;
  }

  begin(item: Json): AnswerEvent[] {
    if (this.#callIndex === undefined) return [];
    const id = textOf(item['call_id'] ?? item['id']);
    return [{ type: 'tool_call', index: this.#callIndex, id, name: textOf(item['name']) }];
  }

  addText(partIndex: number, text: string, logprobs?: unknown): AnswerEvent[] {
    this.type ??= 'message';
    this.#partsWithDeltas.add(partIndex);
    const tokens = toRecords(logprobs).map(readLogprob);
    if (text === '' && tokens.length === 0) return [];
    return [{ type: 'text', text, ...(tokens.length > 0 ? { logprobs: tokens } : {}) }];
  }

  addRefusal(partIndex: number, text: string): AnswerEvent[] {
    this.type ??= 'message';
    this.#partsWithDeltas.add(partIndex);
    return text === '' ? [] : [{ type: 'refusal', text }];
  }

  /** Parts of a summary are separated by an empty line. */
  addReasoning(form: 'summary' | 'content', partIndex: number, text: string): AnswerEvent[] {
    this.type ??= 'reasoning';
    this.#reasoningForm ??= form;
    if (this.#reasoningForm !== form || text === '') return [];
    const separator = this.#partsWithDeltas.size > 0 && !this.#partsWithDeltas.has(partIndex) ? '\n\n' : '';
    this.#partsWithDeltas.add(partIndex);
    return [{ type: 'reasoning', text: separator + text }];
  }

  addArguments(text: string): AnswerEvent[] {
    if (this.#callIndex === undefined || text === '') return [];
    this.#partsWithDeltas.add(0);
    return [{ type: 'tool_arguments', index: this.#callIndex, text }];
  }

  /** Reads the complete item: parts without deltas, and members that only the complete item has. */
  end(item: Json): AnswerEvent[] {
    if (this.#isDone) return [];
    this.#isDone = true;
    switch (item['type']) {
      case 'message':
        return toRecords(item['content']).flatMap((part, partIndex) => this.#readPart(part, partIndex));
      case 'function_call':
        return this.#partsWithDeltas.size > 0 ? [] : this.addArguments(textOf(item['arguments']));
      case 'reasoning':
        return [...this.#readReasoning(item), ...readEncryptedReasoning(item)];
      default:
        return readHostedCall(item);
    }
  }

  #readPart(part: Json, partIndex: number): AnswerEvent[] {
    if (this.#partsWithDeltas.has(partIndex)) return [];
    if (part['type'] === 'refusal') return this.addRefusal(partIndex, textOf(part['refusal']));
    return part['type'] === 'output_text'
      ? this.addText(partIndex, textOf(part['text']), part['logprobs'])
      : [];
  }

  #readReasoning(item: Json): AnswerEvent[] {
    if (this.#partsWithDeltas.size > 0) return [];
    const content = toRecords(item['content']);
    const form = content.length > 0 ? 'content' : 'summary';
    const parts = form === 'content' ? content : toRecords(item['summary']);
    return parts.flatMap((part, partIndex) => this.addReasoning(form, partIndex, textOf(part['text'])));
  }
}

/**
 * The billed call of an item of a tool that the provider ran. Of a web search, its searches are billed, and not the pages
 * that it opens; code runs are billed by their container.
 */
function readHostedCall({ type, id, action, container_id: container }: Json): AnswerEvent[] {
  const key = textOf(id);
  switch (type) {
    case 'web_search_call':
      return isRecord(action) && typeof action['type'] === 'string' && action['type'] !== 'search'
        ? []
        : [{ type: 'hosted_call', tool: 'web_search', key }];
    case 'file_search_call':
      return [{ type: 'hosted_call', tool: 'file_search', key }];
    case 'code_interpreter_call':
      return [{ type: 'hosted_call', tool: 'code_interpreter', key: textOf(container) || key }];
    default:
      return [];
  }
}

function readEncryptedReasoning(item: Json): AnswerEvent[] {
  const encrypted = textOf(item['encrypted_content']);
  if (encrypted === '') return [];
  const data = tagSignature('openai', encrypted);
  return [
    { type: 'encrypted_reasoning', data, ...(typeof item['id'] === 'string' ? { id: item['id'] } : {}) },
  ];
}

function readLogprob(entry: Json): TokenLogprob {
  return { ...readToken(entry), top_logprobs: toRecords(entry['top_logprobs']).map(readToken) };
}

/** Streams omit the bytes. */
const readToken = ({ token, logprob, bytes }: Json) => ({
  token: textOf(token),
  logprob: typeof logprob === 'number' ? logprob : 0,
  bytes: Array.isArray(bytes) ? (bytes as number[]) : null,
});

/** The finish event of a completed or incomplete response. */
export function createFinishEvent(response: Json, calls: number): AnswerEvent {
  const details = response['incomplete_details'];
  const incompleteReason = isRecord(details) ? details['reason'] : undefined;
  const detail = typeof incompleteReason === 'string' ? { detail: incompleteReason } : {};
  if (response['status'] !== 'incomplete')
    return { type: 'finish', reason: calls > 0 ? 'tool_calls' : 'stop', ...detail };
  const reason: FinishReason = incompleteReason === 'content_filter' ? 'content_filter' : 'length';
  return { type: 'finish', reason, ...detail };
}
