import { type AnswerEvent, concatLogprobs, type TextLogprobs } from '../core/answer.ts';
import { errorObject, invalidRequest } from '../core/error.ts';
import type { AnswerMetadata, ClientWire, StreamWriter } from '../core/wire.ts';
import { readResidentOptions, commonMembers, writeProgress } from '../chat/resident-answer-options.ts';
import { writeUsage } from '../chat/usage.ts';
import { errorFrame, sseFrame, doneFrame } from '../chat/writer.ts';
import { readFacts } from './facts.ts';

/** OpenAI's legacy text completions as a client wire. */
export const completionsWire: ClientWire = {
  name: 'completions',
  facts: readFacts,
  conversation() {
    // A text to continue is not a conversation: only providers of the same wire can serve it.
    throw invalidRequest('This model is not served on the completions wire; use POST /v1/chat/completions.', {
      param: 'model',
    });
  },
  body: writeBody,
  writer: createWriter,
  errorBody: (error) => ({ error: errorObject(error) }),
};

const commonMembersOf = (metadata: AnswerMetadata) => commonMembers(metadata, 'text_completion', 'cmpl');

/** Usage members; undefined where no `usage` event arrived. */
const usageMembersOf = (event: Extract<AnswerEvent, { type: 'usage' }> | undefined) =>
  event && {
    usage: writeUsage(event.usage),
    ...(event.timings ? { timings: event.timings } : {}),
  };

function writeBody(events: readonly AnswerEvent[], metadata: AnswerMetadata): object {
  const choices: { text: string; logprobPieces: TextLogprobs[]; finish: string }[] = [];
  for (const event of events) {
    if (event.type !== 'text' && event.type !== 'finish') continue;
    const choice = (choices[event.choice ?? 0] ??= { text: '', logprobPieces: [], finish: 'stop' });
    if (event.type === 'finish') choice.finish = toFinishReason(event.reason);
    else {
      choice.text += event.text;
      if (event.textLogprobs) choice.logprobPieces.push(event.textLogprobs);
    }
  }
  const hasLogprobs =
    typeof metadata.request.body['logprobs'] === 'number' && metadata.resident !== undefined;
  return {
    ...commonMembersOf(metadata),
    choices: choices.map(({ text, logprobPieces, finish }, index) =>
      writeChoice(index, text, { logprobs: hasLogprobs ? concatLogprobs(logprobPieces) : null, finish }),
    ),
    ...usageMembersOf(events.findLast((event) => event.type === 'usage')),
  };
}

const writeChoice = (
  index: number,
  text: string,
  { logprobs = null, finish = null }: { logprobs?: TextLogprobs | null; finish?: string | null },
) => ({ text, index, logprobs, finish_reason: finish });

type Finish = Extract<AnswerEvent, { type: 'finish' }>['reason'];
const toFinishReason = (reason: Finish): string => (reason === 'tool_calls' ? 'stop' : reason);

function createWriter(metadata: AnswerMetadata): StreamWriter {
  const head = commonMembersOf(metadata);
  const residentOptions = readResidentOptions(metadata);
  const { includeUsage } = metadata.request.facts;
  let usageEvent: Extract<AnswerEvent, { type: 'usage' }> | undefined;
  const chunk = (choice: object, extraMembers: object = {}) =>
    sseFrame(
      JSON.stringify({
        ...head,
        choices: [choice],
        ...(includeUsage ? { usage: null } : {}),
        ...extraMembers,
      }),
    );
  return {
    write(event) {
      const { choice: index = 0, timings } = event;
      const timingsMember = timings && residentOptions?.includeTimings ? { timings } : {};
      switch (event.type) {
        case 'progress':
          if (!residentOptions?.includeProgress) return '';
          return chunk(writeChoice(index, '', {}), {
            ...timingsMember,
            prompt_progress: writeProgress(event),
          });
        case 'text':
          return chunk(
            writeChoice(index, event.text, { logprobs: event.textLogprobs ?? null }),
            timingsMember,
          );
        case 'finish':
          return chunk(
            writeChoice(index, '', { finish: toFinishReason(event.reason) }),
            timings ? { timings } : {},
          );
        case 'usage':
          usageEvent = event;
          return '';
        default:
          return '';
      }
    },
    end: () =>
      (includeUsage && usageEvent
        ? sseFrame(JSON.stringify({ ...head, choices: [], ...usageMembersOf(usageEvent) }))
        : '') + doneFrame,
    fail: errorFrame,
  };
}
