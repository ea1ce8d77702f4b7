import { type AnswerEvent, joinedLogprobs, type TextLogprobs } from '../core/answer.ts';
import { errorObject, invalidRequest } from '../core/error.ts';
import type { AnswerAbout, ClientWire, StreamWriter } from '../core/wire.ts';
import { formOf, headOf, progressOf } from '../chat/resident-form.ts';
import { writtenUsage } from '../chat/usage.ts';
import { errorFrame, frameOf, lastFrame } from '../chat/writer.ts';
import { factsOf } from './facts.ts';

/** OpenAI's legacy text completions as a client wire. */
export const completionsWire: ClientWire = {
  name: 'completions',
  facts: factsOf,
  conversation() {
    // A text to continue is not a conversation: only providers of the same wire can serve it.
    throw invalidRequest('This model is not served on the completions wire; use POST /v1/chat/completions.', {
      param: 'model',
    });
  },
  body: bodyOf,
  writer: writerOf,
  errorBody: (error) => ({ error: errorObject(error) }),
};

const headFor = (about: AnswerAbout) => headOf(about, 'text_completion', 'cmpl');

/** Usage members; undefined where no `usage` event arrived. */
const takenOf = (event: Extract<AnswerEvent, { type: 'usage' }> | undefined) =>
  event && {
    usage: writtenUsage(event.usage),
    ...(event.timings ? { timings: event.timings } : {}),
  };

function bodyOf(events: readonly AnswerEvent[], about: AnswerAbout): object {
  const choices: { text: string; told: TextLogprobs[]; finish: string }[] = [];
  for (const event of events) {
    if (event.type !== 'text' && event.type !== 'finish') continue;
    const choice = (choices[event.choice ?? 0] ??= { text: '', told: [], finish: 'stop' });
    if (event.type === 'finish') choice.finish = finishOf(event.reason);
    else {
      choice.text += event.text;
      if (event.textLogprobs) choice.told.push(event.textLogprobs);
    }
  }
  const isTold = typeof about.request.body['logprobs'] === 'number' && about.resident !== undefined;
  return {
    ...headFor(about),
    choices: choices.map(({ text, told, finish }, index) =>
      choiceOf(index, text, { logprobs: isTold ? joinedLogprobs(told) : null, finish }),
    ),
    ...takenOf(events.findLast((event) => event.type === 'usage')),
  };
}

const choiceOf = (
  index: number,
  text: string,
  { logprobs = null, finish = null }: { logprobs?: TextLogprobs | null; finish?: string | null },
) => ({ text, index, logprobs, finish_reason: finish });

type Finish = Extract<AnswerEvent, { type: 'finish' }>['reason'];
const finishOf = (reason: Finish): string => (reason === 'tool_calls' ? 'stop' : reason);

function writerOf(about: AnswerAbout): StreamWriter {
  const head = headFor(about);
  const form = formOf(about);
  const { includeUsage } = about.request.facts;
  let taken: Extract<AnswerEvent, { type: 'usage' }> | undefined;
  const chunk = (choice: object, more: object = {}) =>
    frameOf(
      JSON.stringify({ ...head, choices: [choice], ...(includeUsage ? { usage: null } : {}), ...more }),
    );
  return {
    write(event) {
      const { choice: index = 0, timings } = event;
      const timed = timings && form?.tellsTimings ? { timings } : {};
      switch (event.type) {
        case 'progress':
          if (!form?.tellsProgress) return '';
          return chunk(choiceOf(index, '', {}), { ...timed, prompt_progress: progressOf(event) });
        case 'text':
          return chunk(choiceOf(index, event.text, { logprobs: event.textLogprobs ?? null }), timed);
        case 'finish':
          return chunk(choiceOf(index, '', { finish: finishOf(event.reason) }), timings ? { timings } : {});
        case 'usage':
          taken = event;
          return '';
        default:
          return '';
      }
    },
    end: () =>
      (includeUsage && taken ? frameOf(JSON.stringify({ ...head, choices: [], ...takenOf(taken) })) : '') +
      lastFrame,
    fail: errorFrame,
  };
}
