import type { AnswerEvent, Timings, TokenLogprob } from '../core/answer.ts';
import type { HttpError } from '../../http/error.ts';
import { errorObject } from '../core/error.ts';
import type { AnswerMetadata, StreamWriter } from '../core/wire.ts';
import { ReasoningDetails, signatureMember } from './message.ts';
import {
  readResidentOptions,
  commonMembers,
  writeChoiceLogprobs,
  writeProgress,
  type ResidentAnswerOptions,
} from './resident-answer-options.ts';
import { writeUsage } from './usage.ts';

export const sseFrame = (data: string): string => `data: ${data}\n\n`;
export const doneFrame = sseFrame('[DONE]');
export const errorFrame = (error: HttpError): string =>
  sseFrame(JSON.stringify({ error: errorObject(error) }));

/** Writes answers as chunks, one frame each. */
export class ChunkWriter implements StreamWriter {
  readonly #headJson: string;
  readonly #nullUsageMember: string;
  readonly #includeUsage: boolean;
  readonly #details = new ReasoningDetails();
  readonly #residentOptions: ResidentAnswerOptions | undefined;
  #usage: Extract<AnswerEvent, { type: 'usage' }> | undefined;
  /** Choices whose role was written. */
  readonly #startedChoices = new Set<number>();

  constructor(metadata: AnswerMetadata) {
    this.#residentOptions = readResidentOptions(metadata);
    this.#headJson = `${JSON.stringify(commonMembers(metadata, 'chat.completion.chunk')).slice(0, -1)},"choices":[`;
    this.#includeUsage = metadata.request.facts.includeUsage;
    // With `include_usage` all chunks have the member.
    this.#nullUsageMember = this.#includeUsage ? ',"usage":null' : '';
  }

  write(event: AnswerEvent): string {
    const details = this.#details.add(event);
    switch (event.type) {
      case 'progress':
        return this.#residentOptions?.includeProgress ? this.#writeProgressChunk(event) : '';
      case 'text':
        return this.#writeChunk(event, `"content":${JSON.stringify(event.text)}`, event.logprobs);
      case 'refusal':
        return this.#writeChunk(event, `"refusal":${JSON.stringify(event.text)}`);
      case 'reasoning': {
        const text = JSON.stringify(event.text);
        return this.#writeChunk(
          event,
          `${this.#residentOptions ? `"reasoning_content":${text},` : ''}"reasoning":${text}`,
        );
      }
      case 'reasoning_signature':
      case 'encrypted_reasoning':
        return this.#writeChunk(event, `"reasoning_details":${JSON.stringify(details)}`);
      case 'tool_call': {
        const { index, id, name, signature } = event;
        const call = {
          index,
          id,
          type: 'function',
          function: { name, arguments: '' },
          ...signatureMember(signature),
        };
        return this.#writeChunk(event, `"tool_calls":${JSON.stringify([call])}`);
      }
      case 'tool_arguments': {
        const { index, text } = event;
        return this.#writeChunk(
          event,
          `"tool_calls":${JSON.stringify([{ index, function: { arguments: text } }])}`,
        );
      }
      case 'finish':
        return this.#writeChunk(event, '', undefined, event.reason);
      case 'usage':
        this.#usage = event;
        return '';
      case 'start':
      case 'failure':
      case 'hosted_call':
      case 'hosted_item':
        return '';
    }
  }

  #writeChunk(
    event: AnswerEvent,
    delta: string,
    logprobs?: readonly TokenLogprob[],
    finish?: string,
  ): string {
    const { choice = 0, timings } = event;
    let members = delta;
    let role = '';
    if (!this.#startedChoices.has(choice)) {
      this.#startedChoices.add(choice);
      const content = event.type === 'tool_call' ? null : '';
      if (this.#residentOptions)
        // OpenAI sends the role in a separate first chunk.
        role = this.#writeFrame(
          choice,
          `"role":"assistant","content":${JSON.stringify(content)},"refusal":null`,
          {
            timings,
          },
        );
      else members = `"role":"assistant"${delta === '' ? ',"content":""' : `,${delta}`}`;
    }
    return role + this.#writeFrame(choice, members, { logprobs, finish, timings });
  }

  #writeProgressChunk(event: Extract<AnswerEvent, { type: 'progress' }>): string {
    const { choice = 0, timings } = event;
    const extraMembers = `,"prompt_progress":${JSON.stringify(writeProgress(event))}`;
    return this.#writeFrame(choice, '"role":"assistant","content":null', { timings, extraMembers });
  }

  #writeFrame(
    choice: number,
    delta: string,
    { logprobs, finish, timings, extraMembers = '' }: ChunkMembers,
  ): string {
    const logprobsJson = logprobs
      ? JSON.stringify(writeChoiceLogprobs(logprobs, this.#residentOptions))
      : 'null';
    const reason = finish === undefined ? 'null' : `"${finish}"`;
    const hasTimings = timings && (finish !== undefined || this.#residentOptions?.includeTimings);
    const timingsMember = hasTimings ? `,"timings":${JSON.stringify(timings)}` : '';
    return sseFrame(
      `${this.#headJson}{"index":${choice},"delta":{${delta}},"logprobs":${logprobsJson},"finish_reason":${reason}}]${this.#nullUsageMember}${timingsMember}${extraMembers}}`,
    );
  }

  end(): string {
    return this.#usageFrame() + doneFrame;
  }

  #usageFrame(): string {
    if (!this.#includeUsage || !this.#usage) return '';
    const { usage, timings } = this.#usage;
    const timingsMember = timings ? `,"timings":${JSON.stringify(timings)}` : '';
    return sseFrame(`${this.#headJson}],"usage":${JSON.stringify(writeUsage(usage))}${timingsMember}}`);
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
  readonly extraMembers?: string;
}
