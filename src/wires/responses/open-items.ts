import { isJson } from '../../util/json.ts';
import type { HostedItem, TokenLogprob } from '../core/answer.ts';
import { createId } from './common-members.ts';
import { encodeReasoning, type EncodedReasoning } from './encrypted-content.ts';

/** An event without its sequence number. */
export interface UnnumberedEvent {
  readonly type: string;
  readonly [member: string]: unknown;
}

export type ItemStatus = 'in_progress' | 'completed' | 'incomplete';

/** An output item that is being written. */
export interface OpenItem {
  begin(): UnnumberedEvent[];
  end(status: ItemStatus): UnnumberedEvent[];
  /** The item so far. */
  item(status: ItemStatus): object;
}

export class OpenMessage implements OpenItem {
  readonly #id: string;
  readonly #index: number;
  readonly #parts: (TextContent | RefusalContent)[] = [];

  constructor(index: number, isResident: boolean) {
    this.#id = createId('msg', isResident);
    this.#index = index;
  }

  begin(): UnnumberedEvent[] {
    return [added(this.#index, this.item('in_progress'))];
  }

  addText(delta: string, logprobs: readonly TokenLogprob[] = []): UnnumberedEvent[] {
    const events = this.#ensurePart('output_text');
    const part = this.#parts.at(-1) as TextContent;
    part.text += delta;
    const tokenLogprobs = logprobs.map(writeLogprob);
    part.logprobs.push(...tokenLogprobs);
    events.push({ type: 'response.output_text.delta', ...this.#reference(), delta, logprobs: tokenLogprobs });
    return events;
  }

  addRefusal(delta: string): UnnumberedEvent[] {
    const events = this.#ensurePart('refusal');
    const part = this.#parts.at(-1) as RefusalContent;
    part.refusal += delta;
    events.push({ type: 'response.refusal.delta', ...this.#reference(), delta });
    return events;
  }

  end(status: ItemStatus): UnnumberedEvent[] {
    const startEvents = this.#parts.length === 0 ? this.#ensurePart('output_text') : [];
    return [...startEvents, ...this.#endPart(), done(this.#index, this.item(status))];
  }

  item(status: ItemStatus): object {
    const content = this.#parts.map(copyPart);
    return { id: this.#id, type: 'message', status, role: 'assistant', content };
  }

  #reference() {
    return { item_id: this.#id, output_index: this.#index, content_index: this.#parts.length - 1 };
  }

  #ensurePart(type: 'output_text' | 'refusal'): UnnumberedEvent[] {
    if (this.#parts.at(-1)?.type === type) return [];
    const endEvents = this.#endPart();
    this.#parts.push(
      type === 'refusal' ? { type, refusal: '' } : { type, text: '', annotations: [], logprobs: [] },
    );
    return [...endEvents, { type: 'response.content_part.added', ...this.#reference(), part: this.#part() }];
  }

  #endPart(): UnnumberedEvent[] {
    const part = this.#parts.at(-1);
    if (!part) return [];
    const reference = this.#reference();
    const doneEvent =
      part.type === 'refusal'
        ? { type: 'response.refusal.done', ...reference, refusal: part.refusal }
        : { type: 'response.output_text.done', ...reference, text: part.text, logprobs: [...part.logprobs] };
    return [doneEvent, { type: 'response.content_part.done', ...reference, part: this.#part() }];
  }

  #part(): object | undefined {
    return this.#parts.slice(-1).map(copyPart)[0];
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
const copyPart = (part: TextContent | RefusalContent) =>
  part.type === 'refusal' ? { ...part } : { ...part, logprobs: [...part.logprobs] };

/** OpenAI's schema requires bytes. */
const writeLogprob = ({ token, logprob, bytes, top_logprobs: top }: TokenLogprob) => ({
  token,
  logprob,
  bytes: bytes ?? [...Buffer.from(token)],
  top_logprobs: top.map((alternative) => ({
    ...alternative,
    bytes: alternative.bytes ?? [...Buffer.from(alternative.token)],
  })),
});

/**
 * A reasoning item. Reasoning of a provider is written as its summary, because OpenAI's clients read nothing else.
 * Reasoning of the resident model is written as the item's content.
 */
export class OpenReasoning implements OpenItem {
  readonly #id: string;
  readonly #index: number;
  readonly #format: (typeof reasoningFormats)['content'];
  #text = '';
  #signature: EncodedReasoning | undefined;

  constructor(index: number, isResident: boolean) {
    this.#id = createId('rs', isResident);
    this.#index = index;
    this.#format = reasoningFormats[isResident ? 'content' : 'summary'];
  }

  begin(): UnnumberedEvent[] {
    return [added(this.#index, this.item('in_progress'))];
  }

  addDelta(delta: string): UnnumberedEvent[] {
    const reference = this.#reference();
    const { added: type, delta: deltaType } = this.#format;
    const startEvents = this.#text === '' ? [{ type, ...reference, part: this.#part() }] : [];
    this.#text += delta;
    return [...startEvents, { type: deltaType, ...reference, delta }];
  }

  signature(seal: EncodedReasoning): void {
    this.#signature = seal;
  }

  end(status: ItemStatus): UnnumberedEvent[] {
    const reference = this.#reference();
    const item = done(this.#index, this.item(status));
    if (this.#text === '') return [item];
    const { done: type, partDone } = this.#format;
    return [
      { type, ...reference, text: this.#text },
      { type: partDone, ...reference, part: this.#part() },
      item,
    ];
  }

  item(status: ItemStatus): object {
    const parts = this.#text === '' ? [] : [this.#part()];
    const item = { id: this.#id, type: 'reasoning' };
    if (this.#format.part === 'reasoning_text')
      return { ...item, status, summary: [], content: parts, encrypted_content: null };
    // Without a status, because OpenAI refuses an item with one in a later request.
    const encryptedContent = this.#signature === undefined ? null : encodeReasoning(this.#signature);
    return { ...item, summary: parts, encrypted_content: encryptedContent };
  }

  #part() {
    return { type: this.#format.part, text: this.#text };
  }

  #reference() {
    return { item_id: this.#id, output_index: this.#index, [this.#format.index]: 0 };
  }
}

const reasoningFormats = {
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

export interface CalledTool {
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
    this.#id = createId('fc', isResident);
    this.#index = index;
    this.#callId = callId;
    this.#name = name;
    this.#isResident = isResident;
  }

  /** Whether the arguments are complete JSON. */
  get isComplete(): boolean {
    return isJson(this.#arguments);
  }

  begin(): UnnumberedEvent[] {
    return [added(this.#index, this.item('in_progress'))];
  }

  addDelta(delta: string): UnnumberedEvent[] {
    this.#arguments += delta;
    return [{ type: 'response.function_call_arguments.delta', ...this.#reference(), delta }];
  }

  end(status: ItemStatus): UnnumberedEvent[] {
    // Clients parse the arguments, but some providers send none for an empty object; for the resident model empty
    // arguments mean that the call was truncated.
    const isEmpty = this.#arguments === '' && status === 'completed' && !this.#isResident;
    const emptyArguments = isEmpty ? this.addDelta('{}') : [];
    const call = { name: this.#name, arguments: this.#arguments };
    return [
      ...emptyArguments,
      { type: 'response.function_call_arguments.done', ...this.#reference(), ...call },
      done(this.#index, this.item(status)),
    ];
  }

  /** A call with truncated arguments is incomplete, whatever ended the answer, so that clients do not run it. */
  item(requestedStatus: ItemStatus): object {
    const status = requestedStatus === 'completed' && !this.isComplete ? 'incomplete' : requestedStatus;
    const call = { call_id: this.#callId, name: this.#name, arguments: this.#arguments };
    return { id: this.#id, type: 'function_call', status, ...call };
  }

  #reference() {
    return { item_id: this.#id, output_index: this.#index };
  }
}

/** Events of an item of the host's MCP servers. A call comes twice: when it begins, and with its outcome. */
export function hostedItemEvents(index: number, item: HostedItem, isNew: boolean): UnnumberedEvent[] {
  const reference = { item_id: item.id, output_index: index };
  const begun = isNew ? [added(index, item)] : [];
  switch (item.type) {
    case 'mcp_list_tools':
      return [
        ...begun,
        { type: 'response.mcp_list_tools.in_progress', ...reference },
        {
          type: `response.mcp_list_tools.${item.error === null ? 'completed' : 'failed'}`,
          ...reference,
        },
        done(index, item),
      ];
    case 'mcp_approval_request':
      return [...begun, done(index, item)];
    case 'mcp_call':
      return [
        ...begun,
        ...(isNew
          ? [
              { type: 'response.mcp_call.in_progress', ...reference },
              { type: 'response.mcp_call_arguments.done', ...reference, arguments: item.arguments },
            ]
          : []),
        ...(item.status === 'in_progress'
          ? []
          : [{ type: `response.mcp_call.${item.status}`, ...reference }, done(index, item)]),
      ];
  }
}

export const added = (index: number, item: object): UnnumberedEvent => ({
  type: 'response.output_item.added',
  output_index: index,
  item,
});
export const done = (index: number, item: object): UnnumberedEvent => ({
  type: 'response.output_item.done',
  output_index: index,
  item,
});
