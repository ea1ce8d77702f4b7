import { randomBytes } from 'node:crypto';
import { isRecord } from '../../util/json.ts';
import type { AnswerEvent } from '../core/answer.ts';

interface Call {
  readonly n: number;
  /** The provider's id, where it sent one. */
  id: string | undefined;
  /** Arguments that arrived before the name. */
  waiting: string;
  isTold: boolean;
}

/**
 * Reads the pieces of tool calls and numbers the calls from 0 without gaps. Providers send pieces without an index,
 * with the same index for all calls, with the id on every piece, or with complete arguments at once, as text or as an
 * object.
 */
export class CallReader {
  /** The call of each piece of the last `push`. */
  placed: { readonly index: number; readonly id: string | undefined; readonly isFirst: boolean }[] = [];
  readonly #calls: Call[] = [];
  readonly #byIndex = new Map<number, Call>();

  get count(): number {
    return this.#calls.length;
  }

  push(pieces: unknown): AnswerEvent[] {
    this.placed = [];
    if (!Array.isArray(pieces)) return [];
    return (pieces as unknown[]).flatMap((piece) => (isRecord(piece) ? this.#piece(piece) : []));
  }

  #piece(piece: Readonly<Record<string, unknown>>): AnswerEvent[] {
    const called = isRecord(piece['function']) ? piece['function'] : {};
    const name = textOf(called['name']);
    const call = this.#find(piece['index'], textOf(piece['id']), name);
    const given = called['arguments'];
    const args = typeof given === 'string' ? given : isRecord(given) ? JSON.stringify(given) : '';
    const isFirst = !call.isTold;
    const events: AnswerEvent[] = [];
    if (!call.isTold && name === '') call.waiting += args;
    else {
      if (!call.isTold) events.push(this.#tell(call, name, sealIn(piece)));
      const text = call.waiting + args;
      call.waiting = '';
      if (text !== '') events.push({ type: 'tool_arguments', index: call.n, text });
    }
    this.placed.push({ index: call.n, id: call.id, isFirst: isFirst && call.isTold });
    return events;
  }

  #find(index: unknown, id: string, name: string): Call {
    const isNew = (known: Call) => id !== '' && name !== '' && known.id !== undefined && known.id !== id;
    const known =
      typeof index === 'number'
        ? this.#byIndex.get(index)
        : ((id === '' ? undefined : this.#calls.find((each) => each.id === id)) ??
          (id === '' && name === '' ? this.#calls.at(-1) : undefined));
    if (known && !isNew(known)) {
      known.id ??= id === '' ? undefined : id;
      return known;
    }
    const call: Call = { n: this.#calls.length, id: id === '' ? undefined : id, waiting: '', isTold: false };
    this.#calls.push(call);
    if (typeof index === 'number') this.#byIndex.set(index, call);
    return call;
  }

  #tell(call: Call, name: string, signature: string | undefined): AnswerEvent {
    call.isTold = true;
    // The caller returns results by the id, so a missing id is generated.
    call.id ??= `call_${randomBytes(12).toString('hex')}`;
    const { n: index, id } = call;
    return { type: 'tool_call', index, id, name, ...(signature === undefined ? {} : { signature }) };
  }
}

const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');

function sealIn(piece: Readonly<Record<string, unknown>>): string | undefined {
  const extra = piece['extra_content'];
  const google = isRecord(extra) ? extra['google'] : undefined;
  const seal = isRecord(google) ? google['thought_signature'] : undefined;
  return typeof seal === 'string' ? seal : undefined;
}
