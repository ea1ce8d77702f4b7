import type { AnswerEvent, Timings, TokenLogprob } from '../core/answer.ts';
import type { HttpError } from '../../http/error.ts';
import { errorObject } from '../core/error.ts';
import type { AnswerAbout, StreamWriter } from '../core/wire.ts';
import { ReasoningDetails, sealOf } from './message.ts';
import { formOf, headOf, logprobsOf, progressOf, type ResidentForm } from './resident-form.ts';
import { writtenUsage } from './usage.ts';

export const frameOf = (data: string): string => `data: ${data}\n\n`;
export const lastFrame = frameOf('[DONE]');
export const errorFrame = (error: HttpError): string =>
  frameOf(JSON.stringify({ error: errorObject(error) }));

/** Writes answers as chunks, one frame each. */
export class ChunkWriter implements StreamWriter {
  readonly #head: string;
  readonly #usageNull: string;
  readonly #includeUsage: boolean;
  readonly #details = new ReasoningDetails();
  readonly #form: ResidentForm | undefined;
  #usage: Extract<AnswerEvent, { type: 'usage' }> | undefined;
  /** Choices whose role was written. */
  readonly #begun = new Set<number>();

  constructor(about: AnswerAbout) {
    this.#form = formOf(about);
    this.#head = `${JSON.stringify(headOf(about, 'chat.completion.chunk')).slice(0, -1)},"choices":[`;
    this.#includeUsage = about.request.facts.includeUsage;
    // With `include_usage` all chunks have the member.
    this.#usageNull = this.#includeUsage ? ',"usage":null' : '';
  }

  write(event: AnswerEvent): string {
    const details = this.#details.add(event);
    switch (event.type) {
      case 'progress':
        return this.#form?.tellsProgress ? this.#progress(event) : '';
      case 'text':
        return this.#chunk(event, `"content":${JSON.stringify(event.text)}`, event.logprobs);
      case 'refusal':
        return this.#chunk(event, `"refusal":${JSON.stringify(event.text)}`);
      case 'reasoning': {
        const text = JSON.stringify(event.text);
        return this.#chunk(event, `${this.#form ? `"reasoning_content":${text},` : ''}"reasoning":${text}`);
      }
      case 'reasoning_signature':
      case 'sealed_reasoning':
        return this.#chunk(event, `"reasoning_details":${JSON.stringify(details)}`);
      case 'tool_call': {
        const { index, id, name, signature } = event;
        const call = { index, id, type: 'function', function: { name, arguments: '' }, ...sealOf(signature) };
        return this.#chunk(event, `"tool_calls":${JSON.stringify([call])}`);
      }
      case 'tool_arguments': {
        const { index, text } = event;
        return this.#chunk(
          event,
          `"tool_calls":${JSON.stringify([{ index, function: { arguments: text } }])}`,
        );
      }
      case 'finish':
        return this.#chunk(event, '', undefined, event.reason);
      case 'usage':
        this.#usage = event;
        return '';
      case 'start':
      case 'failure':
        return '';
    }
  }

  #chunk(event: AnswerEvent, delta: string, logprobs?: readonly TokenLogprob[], finish?: string): string {
    const { choice = 0, timings } = event;
    let members = delta;
    let role = '';
    if (!this.#begun.has(choice)) {
      this.#begun.add(choice);
      const content = event.type === 'tool_call' ? null : '';
      if (this.#form)
        // OpenAI sends the role in a separate first chunk.
        role = this.#frame(choice, `"role":"assistant","content":${JSON.stringify(content)},"refusal":null`, {
          timings,
        });
      else members = `"role":"assistant"${delta === '' ? ',"content":""' : `,${delta}`}`;
    }
    return role + this.#frame(choice, members, { logprobs, finish, timings });
  }

  #progress(event: Extract<AnswerEvent, { type: 'progress' }>): string {
    const { choice = 0, timings } = event;
    const more = `,"prompt_progress":${JSON.stringify(progressOf(event))}`;
    return this.#frame(choice, '"role":"assistant","content":null', { timings, more });
  }

  #frame(choice: number, delta: string, { logprobs, finish, timings, more = '' }: ChunkMembers): string {
    const shown = logprobs ? JSON.stringify(logprobsOf(logprobs, this.#form)) : 'null';
    const reason = finish === undefined ? 'null' : `"${finish}"`;
    const isTimed = timings && (finish !== undefined || this.#form?.tellsTimings);
    const measured = isTimed ? `,"timings":${JSON.stringify(timings)}` : '';
    return frameOf(
      `${this.#head}{"index":${choice},"delta":{${delta}},"logprobs":${shown},"finish_reason":${reason}}]${this.#usageNull}${measured}${more}}`,
    );
  }

  end(): string {
    return this.#usageFrame() + lastFrame;
  }

  #usageFrame(): string {
    if (!this.#includeUsage || !this.#usage) return '';
    const { usage, timings } = this.#usage;
    const measured = timings ? `,"timings":${JSON.stringify(timings)}` : '';
    return frameOf(`${this.#head}],"usage":${JSON.stringify(writtenUsage(usage))}${measured}}`);
  }

  fail(error: HttpError): string {
    return errorFrame(error);
  }
}

interface ChunkMembers {
  readonly timings: Timings | undefined;
  readonly logprobs?: readonly TokenLogprob[] | undefined;
  readonly finish?: string | undefined;
  /** Additional members, as JSON text. */
  readonly more?: string;
}
