import type { Usage } from '../core/types.ts';
import type { WireError } from '../core/error.ts';
import type { AnswerEvent } from '../core/answer.ts';
import type { AnswerAbout, StreamWriter } from '../core/wire.ts';
import { ReasoningDetails, sealOf } from './message.ts';
import { writtenUsage } from './usage.ts';

export const frameOf = (data: string): string => `data: ${data}\n\n`;
export const lastFrame = frameOf('[DONE]');
export const errorFrame = (error: WireError): string => frameOf(JSON.stringify({ error: error.body }));

/** One id for an answer and all of its chunks. */
export const answerId = (prefix: string, requestId: string): string =>
  `${prefix}-${requestId.replace(/^req_/, '')}`;

/** Chunks of one answer, each a frame. */
export class ChunkWriter implements StreamWriter {
  readonly #head: string;
  readonly #usageNull: string;
  readonly #includeUsage: boolean;
  readonly #details = new ReasoningDetails();
  #usage: Usage | undefined;
  #begun = false;

  constructor(about: AnswerAbout) {
    const { requestId, model, created, request } = about;
    const head = { id: answerId('chatcmpl', requestId), object: 'chat.completion.chunk', created, model };
    this.#head = `${JSON.stringify(head).slice(0, -1)},"choices":[`;
    this.#includeUsage = request.facts.includeUsage;
    // With `include_usage` all chunks have the member.
    this.#usageNull = this.#includeUsage ? ',"usage":null' : '';
  }

  write(event: AnswerEvent): string {
    const details = this.#details.add(event);
    switch (event.type) {
      case 'text':
        return this.#chunk(`"content":${JSON.stringify(event.text)}`, event.logprobs);
      case 'refusal':
        return this.#chunk(`"refusal":${JSON.stringify(event.text)}`);
      case 'reasoning':
        return this.#chunk(`"reasoning":${JSON.stringify(event.text)}`);
      case 'reasoning_signature':
      case 'sealed_reasoning':
        return this.#chunk(`"reasoning_details":${JSON.stringify(details)}`);
      case 'tool_call': {
        const { index, id, name, signature } = event;
        const call = { index, id, type: 'function', function: { name, arguments: '' }, ...sealOf(signature) };
        return this.#chunk(`"tool_calls":${JSON.stringify([call])}`);
      }
      case 'tool_arguments': {
        const { index, text } = event;
        return this.#chunk(`"tool_calls":${JSON.stringify([{ index, function: { arguments: text } }])}`);
      }
      case 'finish':
        return this.#chunk('', undefined, event.reason);
      case 'usage':
        this.#usage = event.usage;
        return '';
      case 'start':
      case 'failure':
        return '';
    }
  }

  #chunk(delta: string, logprobs?: readonly unknown[], finish?: string): string {
    let members = delta;
    if (!this.#begun) {
      this.#begun = true;
      members = `"role":"assistant"${delta === '' ? ',"content":""' : `,${delta}`}`;
    }
    const shown = logprobs ? JSON.stringify({ content: logprobs, refusal: null }) : 'null';
    const reason = finish === undefined ? 'null' : `"${finish}"`;
    return frameOf(
      `${this.#head}{"index":0,"delta":{${members}},"logprobs":${shown},"finish_reason":${reason}}]${this.#usageNull}}`,
    );
  }

  end(): string {
    const usage =
      this.#includeUsage && this.#usage
        ? frameOf(`${this.#head}],"usage":${JSON.stringify(writtenUsage(this.#usage))}}`)
        : '';
    return usage + lastFrame;
  }

  fail(error: WireError): string {
    return errorFrame(error);
  }
}
