import { errorObject, invalidRequest } from '../core/error.ts';
import type { AnswerEvent } from '../core/answer.ts';
import { writtenUsage } from '../chat/usage.ts';
import { headOf } from '../chat/resident-form.ts';
import { errorFrame, frameOf, lastFrame } from '../chat/writer.ts';
import type { AnswerAbout, ClientWire, StreamWriter } from '../core/wire.ts';
import { factsOf } from './facts.ts';

/** OpenAI's older text completions, as callers speak them. */
export const completionsWire: ClientWire = {
  name: 'completions',
  facts: factsOf,
  conversation() {
    // A text to be gone on with is no conversation: only providers of the same wire can serve it.
    throw invalidRequest('This model is not served on the completions wire; use POST /v1/chat/completions.', {
      param: 'model',
    });
  },
  body(events, about) {
    const finish = events.findLast((event) => event.type === 'finish');
    const usage = events.findLast((event) => event.type === 'usage');
    return {
      ...headOf(about, 'text_completion', 'cmpl'),
      choices: [choiceOf(textOf(events), finish ? finishOf(finish.reason) : 'stop')],
      ...(usage ? { usage: writtenUsage(usage.usage) } : {}),
    };
  },
  writer: writerOf,
  errorBody: (error) => ({ error: errorObject(error) }),
};

const textOf = (events: readonly AnswerEvent[]): string =>
  events.map((event) => (event.type === 'text' ? event.text : '')).join('');

const choiceOf = (text: string, finish: string | null) => ({
  text,
  index: 0,
  logprobs: null,
  finish_reason: finish,
});

type Finish = Extract<AnswerEvent, { type: 'finish' }>['reason'];
const finishOf = (reason: Finish): string => (reason === 'tool_calls' ? 'stop' : reason);

function writerOf(about: AnswerAbout): StreamWriter {
  const head = headOf(about, 'text_completion', 'cmpl');
  const { includeUsage } = about.request.facts;
  let usage: object | undefined;
  const chunk = (text: string, finish: string | null) =>
    frameOf(
      JSON.stringify({
        ...head,
        choices: [choiceOf(text, finish)],
        ...(includeUsage ? { usage: null } : {}),
      }),
    );
  return {
    write(event) {
      if (event.type === 'text') return chunk(event.text, null);
      if (event.type === 'finish') return chunk('', finishOf(event.reason));
      if (event.type === 'usage') usage = writtenUsage(event.usage);
      return '';
    },
    end: () =>
      (includeUsage && usage ? frameOf(JSON.stringify({ ...head, choices: [], usage })) : '') + lastFrame,
    fail: errorFrame,
  };
}
