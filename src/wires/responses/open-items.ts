import { isJson } from '../../util/json.ts';
import type { TokenLogprob } from '../core/answer.ts';
import { freshId } from './head.ts';
import { encodeSeal, type Seal } from './sealed.ts';

/** An event without its sequence number. */
export interface Made {
  readonly type: string;
  readonly [member: string]: unknown;
}

export type ItemStatus = 'in_progress' | 'completed' | 'incomplete';

/** An output item that is being written. */
export interface OpenItem {
  begin(): Made[];
  end(status: ItemStatus): Made[];
  /** The item so far. */
  item(status: ItemStatus): object;
}

export class OpenMessage implements OpenItem {
  readonly #id: string;
  readonly #index: number;
  readonly #parts: (TextContent | RefusalContent)[] = [];

  constructor(index: number, isResident: boolean) {
    this.#id = freshId('msg', isResident);
    this.#index = index;
  }

  begin(): Made[] {
    return [added(this.#index, this.item('in_progress'))];
  }

  text(delta: string, logprobs: readonly TokenLogprob[] = []): Made[] {
    const turn = this.#turnTo('output_text');
    const part = this.#parts.at(-1) as TextContent;
    part.text += delta;
    const written = logprobs.map(writeLogprob);
    part.logprobs.push(...written);
    turn.push({ type: 'response.output_text.delta', ...this.#at(), delta, logprobs: written });
    return turn;
  }

  refuse(delta: string): Made[] {
    const turn = this.#turnTo('refusal');
    const part = this.#parts.at(-1) as RefusalContent;
    part.refusal += delta;
    turn.push({ type: 'response.refusal.delta', ...this.#at(), delta });
    return turn;
  }

  end(status: ItemStatus): Made[] {
    const begun = this.#parts.length === 0 ? this.#turnTo('output_text') : [];
    return [...begun, ...this.#endPart(), done(this.#index, this.item(status))];
  }

  item(status: ItemStatus): object {
    const content = this.#parts.map(copied);
    return { id: this.#id, type: 'message', status, role: 'assistant', content };
  }

  #at() {
    return { item_id: this.#id, output_index: this.#index, content_index: this.#parts.length - 1 };
  }

  #turnTo(type: 'output_text' | 'refusal'): Made[] {
    if (this.#parts.at(-1)?.type === type) return [];
    const ended = this.#endPart();
    this.#parts.push(
      type === 'refusal' ? { type, refusal: '' } : { type, text: '', annotations: [], logprobs: [] },
    );
    return [...ended, { type: 'response.content_part.added', ...this.#at(), part: this.#part() }];
  }

  #endPart(): Made[] {
    const part = this.#parts.at(-1);
    if (!part) return [];
    const at = this.#at();
    const whole =
      part.type === 'refusal'
        ? { type: 'response.refusal.done', ...at, refusal: part.refusal }
        : { type: 'response.output_text.done', ...at, text: part.text, logprobs: [...part.logprobs] };
    return [whole, { type: 'response.content_part.done', ...at, part: this.#part() }];
  }

  #part(): object | undefined {
    return this.#parts.slice(-1).map(copied)[0];
  }
}

interface TextContent {
  readonly type: 'output_text';
  text: string;
  readonly annotations: readonly never[];
  readonly logprobs: object[];
}
interface RefusalContent {
  readonly type: 'refusal';
  refusal: string;
}
const copied = (part: TextContent | RefusalContent) =>
  part.type === 'refusal' ? { ...part } : { ...part, logprobs: [...part.logprobs] };

/** OpenAI's schema requires bytes. */
const writeLogprob = ({ token, logprob, bytes, top_logprobs: top }: TokenLogprob) => ({
  token,
  logprob,
  bytes: bytes ?? [...Buffer.from(token)],
  top_logprobs: top.map((each) => ({ ...each, bytes: each.bytes ?? [...Buffer.from(each.token)] })),
});

/**
 * A reasoning item. Reasoning of a provider is written as its summary, because OpenAI's clients read nothing else.
 * Reasoning of the resident model is written as the item's content.
 */
export class OpenReasoning implements OpenItem {
  readonly #id: string;
  readonly #index: number;
  readonly #form: (typeof traceForms)['content'];
  #text = '';
  #seal: Seal | undefined;

  constructor(index: number, isResident: boolean) {
    this.#id = freshId('rs', isResident);
    this.#index = index;
    this.#form = traceForms[isResident ? 'content' : 'summary'];
  }

  begin(): Made[] {
    return [added(this.#index, this.item('in_progress'))];
  }

  delta(delta: string): Made[] {
    const at = this.#at();
    const { added: type, delta: deltaType } = this.#form;
    const begun = this.#text === '' ? [{ type, ...at, part: this.#part() }] : [];
    this.#text += delta;
    return [...begun, { type: deltaType, ...at, delta }];
  }

  seal(seal: Seal): void {
    this.#seal = seal;
  }

  end(status: ItemStatus): Made[] {
    const at = this.#at();
    const item = done(this.#index, this.item(status));
    if (this.#text === '') return [item];
    const { done: type, partDone } = this.#form;
    return [{ type, ...at, text: this.#text }, { type: partDone, ...at, part: this.#part() }, item];
  }

  item(status: ItemStatus): object {
    const parts = this.#text === '' ? [] : [this.#part()];
    const item = { id: this.#id, type: 'reasoning' };
    if (this.#form.part === 'reasoning_text')
      return { ...item, status, summary: [], content: parts, encrypted_content: null };
    // Without a status, because OpenAI refuses an item with one in a later request.
    const sealed = this.#seal === undefined ? null : encodeSeal(this.#seal);
    return { ...item, summary: parts, encrypted_content: sealed };
  }

  #part() {
    return { type: this.#form.part, text: this.#text };
  }

  #at() {
    return { item_id: this.#id, output_index: this.#index, [this.#form.index]: 0 };
  }
}

const traceForms = {
  summary: {
    part: 'summary_text',
    index: 'summary_index',
    added: 'response.reasoning_summary_part.added',
    delta: 'response.reasoning_summary_text.delta',
    done: 'response.reasoning_summary_text.done',
    partDone: 'response.reasoning_summary_part.done',
  },
  content: {
    part: 'reasoning_text',
    index: 'content_index',
    added: 'response.content_part.added',
    delta: 'response.reasoning_text.delta',
    done: 'response.reasoning_text.done',
    partDone: 'response.content_part.done',
  },
};

interface CalledTool {
  readonly callId: string;
  readonly name: string;
}

export class OpenCall implements OpenItem {
  readonly #id: string;
  readonly #index: number;
  readonly #callId: string;
  readonly #name: string;
  readonly #isResident: boolean;
  #arguments = '';

  constructor(index: number, { callId, name }: CalledTool, isResident: boolean) {
    this.#id = freshId('fc', isResident);
    this.#index = index;
    this.#callId = callId;
    this.#name = name;
    this.#isResident = isResident;
  }

  /** Whether the arguments are complete JSON. */
  get isWhole(): boolean {
    return isJson(this.#arguments);
  }

  begin(): Made[] {
    return [added(this.#index, this.item('in_progress'))];
  }

  delta(delta: string): Made[] {
    this.#arguments += delta;
    return [{ type: 'response.function_call_arguments.delta', ...this.#at(), delta }];
  }

  end(status: ItemStatus): Made[] {
    // Clients parse the arguments, but some providers send none for an empty object; for the resident model empty
    // arguments mean that the call was truncated.
    const isEmpty = this.#arguments === '' && status === 'completed' && !this.#isResident;
    const none = isEmpty ? this.delta('{}') : [];
    const whole = { name: this.#name, arguments: this.#arguments };
    return [
      ...none,
      { type: 'response.function_call_arguments.done', ...this.#at(), ...whole },
      done(this.#index, this.item(status)),
    ];
  }

  /** A call with truncated arguments is incomplete, whatever ended the answer, so that clients do not run it. */
  item(asked: ItemStatus): object {
    const status = asked === 'completed' && !this.isWhole ? 'incomplete' : asked;
    const call = { call_id: this.#callId, name: this.#name, arguments: this.#arguments };
    return { id: this.#id, type: 'function_call', status, ...call };
  }

  #at() {
    return { item_id: this.#id, output_index: this.#index };
  }
}

const added = (index: number, item: object): Made => ({
  type: 'response.output_item.added',
  output_index: index,
  item,
});
const done = (index: number, item: object): Made => ({
  type: 'response.output_item.done',
  output_index: index,
  item,
});
