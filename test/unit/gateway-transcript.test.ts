import { expect, it } from 'vitest';
import { AnswerTally } from '../../src/gateway/serve/relay.ts';
import { startSpan, recordAnswer } from '../../src/gateway/serve/span.ts';
import type { AnswerEvent } from '../../src/wires/core/answer.ts';
import { transcriptLines, createSpanRecorder } from '../support/span-recorder.ts';

it('several answers are recorded separately, even when their chunks are interleaved', () => {
  const span = startSpan(
    createSpanRecorder(['gateway']).tracer,
    { wire: 'chat', operation: 'chat' },
    'r',
    undefined,
  );
  const call = (choice: number, name: string): AnswerEvent[] => [
    { type: 'tool_call', choice, index: 0, id: name, name },
    { type: 'tool_arguments', choice, index: 0, text: '{}' },
  ];
  const text = (choice: number, content: string): AnswerEvent => ({ type: 'text', choice, text: content });
  const tally = new AnswerTally();
  tally.recordedEvents = [];
  tally.add([text(0, 'Good '), text(1, 'Bon'), text(0, 'day.'), ...call(1, 'b'), text(1, 'jour.')]);
  tally.add(call(0, 'a'));
  recordAnswer(span, tally);
  expect(transcriptLines(span)).toEqual([
    'assistant: Good day.',
    'tool_call a: {}',
    'assistant: Bonjour.',
    'tool_call b: {}',
  ]);
});
