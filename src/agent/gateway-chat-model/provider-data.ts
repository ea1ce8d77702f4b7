import { isRecord, type Json } from '../../util/json.ts';
import type { AnswerEvent } from '../../wires/core/answer.ts';
import type { Part } from '../../wires/core/conversation.ts';
import type { WireKind } from '../../wires/providers.ts';
import type { ProviderData } from '../chat-model.ts';

/** What is sent back to the provider of an answer with the answer; `ProviderData` of the models of a gateway. */
export interface AnswerData {
  /** Model and wire that returned it; others do not get it. */
  readonly source: string;
  /** The answer with its reasoning and signatures; of calls the signatures count. */
  readonly parts?: readonly Part[];
  /** Members of a message of the chat wire (`reasoning_content`, `reasoning_details`). */
  readonly members?: Json;
  /** Further members of each call of the chat wire (`extra_content`). */
  readonly callMembers?: readonly Json[];
}

export const sourceOf = (wire: WireKind, model: string): string => `${wire} ${model}`;

/** The data of a message, if this model returned it. */
export const answerDataFor = (data: ProviderData | undefined, source: string): AnswerData | undefined =>
  data?.['source'] === source ? (data as unknown as AnswerData) : undefined;

/** Collects the parts of an answer, in their order. */
export class AnswerParts {
  readonly #parts: Part[] = [];

  add(event: AnswerEvent): void {
    const last = this.#parts.at(-1);
    switch (event.type) {
      case 'text':
      case 'refusal':
        if (last?.type === 'text') this.#replaceLast({ ...last, text: last.text + event.text });
        else this.#parts.push({ type: 'text', text: event.text });
        break;
      case 'reasoning':
        if (last?.type === 'reasoning' && last.signature === undefined)
          this.#replaceLast({ ...last, text: last.text + event.text });
        else this.#parts.push({ type: 'reasoning', text: event.text });
        break;
      case 'reasoning_signature':
        if (last?.type === 'reasoning' && last.signature === undefined)
          this.#replaceLast({ ...last, signature: event.signature });
        else this.#parts.push({ type: 'reasoning', text: '', signature: event.signature });
        break;
      case 'encrypted_reasoning': {
        const { data, id } = event;
        this.#parts.push({ type: 'encrypted_reasoning', data, ...(id === undefined ? {} : { id }) });
        break;
      }
      case 'tool_call': {
        const { id, name, signature } = event;
        this.#parts.push({
          type: 'tool_call',
          id,
          name,
          arguments: '',
          ...(signature === undefined ? {} : { signature }),
        });
        break;
      }
      default:
    }
  }

  /** Undefined where text and calls say everything. */
  get signedParts(): readonly Part[] | undefined {
    const isSigned = this.#parts.some(
      (part) => part.type === 'encrypted_reasoning' || ('signature' in part && part.signature !== undefined),
    );
    return isSigned ? this.#parts : undefined;
  }

  #replaceLast(part: Part): void {
    this.#parts[this.#parts.length - 1] = part;
  }
}

/** Members of a message that every server of the chat wire knows, or that are told elsewhere. */
const knownMembers: ReadonlySet<string> = new Set(['role', 'content', 'tool_calls', 'refusal', 'name']);
/** Members that providers return and want back. Others, such as `annotations` or `audio`, are not for requests. */
const returnedMember = /^reasoning|^thinking|signature/;
const knownCallMembers: ReadonlySet<string> = new Set(['index', 'id', 'type', 'function']);

/** Collects the members of the chat wire that its provider wants back, from the chunks of one answer. */
export class ChatMembers {
  readonly #members: Record<string, unknown> = {};
  readonly #callMembers: Json[] = [];

  /**
   * @param chunk a chunk, or a whole completion
   * @param pieces the call that each piece of the chunk belongs to
   */
  add(chunk: Json, pieces: readonly { readonly index: number }[]): void {
    const choices = Array.isArray(chunk['choices']) ? (chunk['choices'] as unknown[]) : [];
    const choice = choices.find((one) => isRecord(one) && (one['index'] ?? 0) === 0);
    const delta = isRecord(choice) ? (choice['delta'] ?? choice['message']) : undefined;
    if (!isRecord(delta)) return;
    for (const [name, value] of Object.entries(delta)) {
      if (knownMembers.has(name) || !returnedMember.test(name)) continue;
      this.#members[name] = merged(this.#members[name], value);
    }
    const calls = Array.isArray(delta['tool_calls']) ? delta['tool_calls'].filter(isRecord) : [];
    calls.forEach((piece, n) => {
      const { index = n } = pieces[n] ?? {};
      for (const [name, value] of Object.entries(piece))
        if (!knownCallMembers.has(name))
          this.#callMembers[index] = {
            ...this.#callMembers[index],
            [name]: merged(this.#callMembers[index]?.[name], value),
          };
    });
  }

  get complete(): Pick<AnswerData, 'members' | 'callMembers'> {
    const members = Object.entries(this.#members).filter(([, value]) => value !== null && value !== '');
    return {
      ...(members.length > 0 ? { members: Object.fromEntries(members) } : {}),
      ...(this.#callMembers.length > 0
        ? { callMembers: Array.from(this.#callMembers, (one) => one ?? {}) }
        : {}),
    };
  }
}

/** Texts of a stream are appended, entries of lists merged by their `index`; other values are replaced. */
function merged(earlier: unknown, later: unknown): unknown {
  if (later === null || later === undefined) return earlier ?? null;
  if (typeof later === 'string' && typeof earlier === 'string') return earlier + later;
  if (Array.isArray(later)) return mergedList(Array.isArray(earlier) ? earlier : [], later);
  if (isRecord(later) && isRecord(earlier)) {
    const all = { ...earlier };
    for (const [name, value] of Object.entries(later)) all[name] = merged(all[name], value);
    return all;
  }
  return later;
}

/** Members that identify an entry of a list; all others grow. */
const identifying: ReadonlySet<string> = new Set(['type', 'index', 'id', 'format']);

function mergedList(earlier: readonly unknown[], later: readonly unknown[]): unknown[] {
  const all = [...earlier];
  for (const entry of later) {
    const at =
      isRecord(entry) && entry['index'] !== undefined
        ? all.findIndex(
            (one) =>
              isRecord(one) &&
              one['index'] === entry['index'] &&
              (one['type'] ?? null) === (entry['type'] ?? null),
          )
        : -1;
    const known = at < 0 ? undefined : all[at];
    if (!isRecord(known) || !isRecord(entry)) {
      all.push(entry);
      continue;
    }
    const both: Record<string, unknown> = { ...known };
    for (const [name, value] of Object.entries(entry))
      both[name] = identifying.has(name) ? (value ?? both[name]) : merged(both[name], value);
    all[at] = both;
  }
  return all;
}
