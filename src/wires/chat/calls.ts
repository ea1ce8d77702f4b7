import { randomBytes } from 'node:crypto';
import { isRecord } from '../../util/json.ts';
import type { AnswerEvent } from '../core/answer.ts';

interface Call {
  readonly index: number;
  /** The provider's id, where it sent one. */
  id: string | undefined;
  /** Arguments that arrived before the name. */
  pendingArguments: string;
  isAnnounced: boolean;
}

/**
 * Reads the pieces of tool calls and numbers the calls from 0 without gaps. Providers send pieces without an index,
 * with the same index for all calls, with the id on every piece, or with complete arguments at once, as text or as an
 * object.
 */
export class ToolCallReader {
  /** The call of each piece of the last `push`. */
  lastPieces: { readonly index: number; readonly id: string | undefined; readonly isFirst: boolean }[] = [];
  readonly #calls: Call[] = [];
  readonly #byIndex = new Map<number, Call>();

  get count(): number {
    return this.#calls.length;
  }

  push(pieces: unknown): AnswerEvent[] {
    this.lastPieces = [];
    if (!Array.isArray(pieces)) return [];
    return (pieces as unknown[]).flatMap((piece) => (isRecord(piece) ? this.#readPiece(piece) : []));
  }

  #readPiece(piece: Readonly<Record<string, unknown>>): AnswerEvent[] {
    const functionMember = isRecord(piece['function']) ? piece['function'] : {};
    const name = textOf(functionMember['name']);
    const call = this.#findCall(piece['index'], textOf(piece['id']), name);
    const rawArguments = functionMember['arguments'];
    const args =
      typeof rawArguments === 'string'
        ? rawArguments
        : isRecord(rawArguments)
          ? JSON.stringify(rawArguments)
          : '';
    const isFirst = !call.isAnnounced;
    const events: AnswerEvent[] = [];
    if (!call.isAnnounced && name === '') call.pendingArguments += args;
    else {
      if (!call.isAnnounced) events.push(this.#announce(call, name, signatureOf(piece)));
      const text = call.pendingArguments + args;
      call.pendingArguments = '';
      if (text !== '') events.push({ type: 'tool_arguments', index: call.index, text });
    }
    this.lastPieces.push({ index: call.index, id: call.id, isFirst: isFirst && call.isAnnounced });
    return events;
  }

  #findCall(index: unknown, id: string, name: string): Call {
    const isNew = (existing: Call) =>
      id !== '' && name !== '' && existing.id !== undefined && existing.id !== id;
    const existing =
      typeof index === 'number'
        ? this.#byIndex.get(index)
        : ((id === '' ? undefined : this.#calls.find((each) => each.id === id)) ??
          (id === '' && name === '' ? this.#calls.at(-1) : undefined));
    if (existing && !isNew(existing)) {
      existing.id ??= id === '' ? undefined : id;
      return existing;
    }
    const call: Call = {
      index: this.#calls.length,
      id: id === '' ? undefined : id,
      pendingArguments: '',
      isAnnounced: false,
    };
    this.#calls.push(call);
    if (typeof index === 'number') this.#byIndex.set(index, call);
    return call;
  }

  #announce(call: Call, name: string, signature: string | undefined): AnswerEvent {
    call.isAnnounced = true;
    // The caller returns results by the id, so a missing id is generated.
    call.id ??= `call_${randomBytes(12).toString('hex')}`;
    const { index, id } = call;
    return { type: 'tool_call', index, id, name, ...(signature === undefined ? {} : { signature }) };
  }
}

const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');

function signatureOf(piece: Readonly<Record<string, unknown>>): string | undefined {
  const extra = piece['extra_content'];
  const google = isRecord(extra) ? extra['google'] : undefined;
  const signature = isRecord(google) ? google['thought_signature'] : undefined;
  return typeof signature === 'string' ? signature : undefined;
}
