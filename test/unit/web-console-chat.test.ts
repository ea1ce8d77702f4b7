import { describe, expect, it } from 'vitest';
import {
  type AssistantTurn,
  decodeSpeed,
  formatProbability,
  confidenceOf,
  overallSpeed,
} from '../../web/console/views/chat/answer.ts';
import { messagesOf } from '../../web/console/views/chat/messages.ts';
import {
  describeSettings,
  samplingBody,
  samplingFromUrl,
  parseStopSequences,
  withSampling,
} from '../../web/console/views/chat/sampling.ts';
import { pathBefore, pathOf, titleOf, versionsOf } from '../../web/chat/tree.ts';

const answer = (change: Partial<AssistantTurn>): AssistantTurn => ({
  id: 1,
  parent: 0,
  role: 'assistant',
  text: '',
  reasoning: '',
  toolCalls: [],
  settings: {},
  tokens: [],
  timing: { chunkTimes: [] },
  state: 'done',
  ...change,
});

describe('sampling in the URL', () => {
  it('sends numbers, omits empty members, and requests probabilities', () => {
    const sampling = samplingFromUrl(new URLSearchParams('temperature=0.5&seed=7&stop=END%0A%5Cn%5Cn'));
    expect(samplingBody(sampling)).toEqual({
      temperature: 0.5,
      seed: 7,
      stop: ['END', '\n\n'],
      logprobs: true,
      top_logprobs: 5,
    });
  });

  it('sends text that is not a number unchanged, so that the host reports it', () => {
    expect(samplingBody(samplingFromUrl(new URLSearchParams('top_p=much')))).toMatchObject({ top_p: 'much' });
  });

  it('sends tools as JSON, and text that is not JSON unchanged', () => {
    const toolsOf = (tools: string) => samplingBody(samplingFromUrl(new URLSearchParams({ tools })))['tools'];
    expect(toolsOf('[{"type":"function"}]')).toEqual([{ type: 'function' }]);
    expect(toolsOf('[{')).toBe('[{');
    expect(toolsOf(' ')).toBeUndefined();
  });

  it('describes what distinguishes two answers', () => {
    const described = (search: string) =>
      describeSettings(samplingBody(samplingFromUrl(new URLSearchParams(search))));
    expect(described('')).toBe("the host's defaults");
    expect(described('temperature=0.5&max_tokens=9&stop=END')).toBe(
      'temperature 0.5, max tokens 9, stop ["END"]',
    );
  });

  it('does not request probabilities when they are disabled', () => {
    expect(samplingBody(samplingFromUrl(new URLSearchParams('alternatives=off')))).toEqual({});
  });

  it('writes only values that are not the default, and keeps other parameters of the URL', () => {
    const search = new URLSearchParams('other=1');
    const set = withSampling(search, 'top_k', '40');
    expect(set.toString()).toBe('other=1&top_k=40');
    expect(withSampling(set, 'top_k', '').toString()).toBe('other=1');
    expect(withSampling(search, 'alternatives', '5').toString()).toBe('other=1');
  });

  it('unescapes stop strings, and changes nothing else in them', () => {
    expect(
      parseStopSequences(String.raw`a\tb` + '\n' + String.raw`c:\\dir` + '\n\n' + String.raw`\d`),
    ).toEqual(['a\tb', String.raw`c:\dir`, String.raw`\d`]);
  });
});

describe('messages sent to the model', () => {
  it('are the system prompt and the conversation, without answers that failed before their first token', () => {
    const turns = [
      { id: 1, parent: 0, role: 'user', text: 'a' } as const,
      answer({ id: 2, text: 'b', state: 'stopped' }),
      { id: 3, parent: 2, role: 'user', text: 'c' } as const,
      answer({ id: 4, state: 'failed' }),
    ];
    expect(messagesOf(' be brief', turns)).toEqual([
      { role: 'system', content: ' be brief' },
      { role: 'user', content: 'a' },
      { role: 'assistant', content: 'b' },
      { role: 'user', content: 'c' },
    ]);
    expect(messagesOf('  ', turns.slice(0, 1))).toEqual([{ role: 'user', content: 'a' }]);
  });

  it('have tool calls only with their results', () => {
    const call = { id: 'c', name: 'f', arguments: '{}' };
    const turns = [answer({ id: 1, text: 'a', toolCalls: [call] })];
    const toolResults = [{ id: 'c', name: 'f', content: '7' }];
    expect(messagesOf('', turns)).toEqual([{ role: 'assistant', content: 'a' }]);
    expect(messagesOf('', [...turns, { id: 2, parent: 1, role: 'user', text: '', toolResults }])).toEqual([
      {
        role: 'assistant',
        content: 'a',
        tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }],
      },
      { role: 'tool', tool_call_id: 'c', content: '7' },
    ]);
  });
});

describe('versions of a conversation', () => {
  const turns = [
    { id: 1, parent: 0, role: 'user', text: 'a' } as const,
    answer({ id: 2, parent: 1 }),
    answer({ id: 3, parent: 1 }),
    { id: 4, parent: 3, role: 'user', text: 'b' } as const,
    { id: 5, parent: 0, role: 'user', text: 'c' } as const,
  ];
  const idsOf = (path: readonly { id: number }[]) => path.map(({ id }) => id);

  it('show the newest one where none is chosen, and what follows the chosen one', () => {
    expect(idsOf(pathOf({ turns, chosen: {} }))).toEqual([5]);
    expect(idsOf(pathOf({ turns, chosen: { 0: 1 } }))).toEqual([1, 3, 4]);
    expect(idsOf(pathOf({ turns, chosen: { 0: 1, 1: 2 } }))).toEqual([1, 2]);
    expect(idsOf(pathOf({ turns, chosen: { 0: 99 } }))).toEqual([5]);
  });

  it('have their own turns before them', () => {
    expect(idsOf(pathBefore({ turns }, turns[3]!))).toEqual([1, 3]);
    expect(pathBefore({ turns }, turns[4]!)).toEqual([]);
    expect(idsOf(versionsOf({ turns }, turns[1]!))).toEqual([2, 3]);
  });

  it('begin with a message that gives the title', () => {
    expect(titleOf('  What is\n27 + 48? ')).toBe('What is 27 + 48?');
    expect(titleOf('word '.repeat(40))).toBe(`${'word '.repeat(11)}word…`);
  });
});

describe('the speed of an answer', () => {
  it('counts the tokens after the first chunk', () => {
    expect(decodeSpeed(answer({ timing: { chunkTimes: [50, 60, 70, 80, 90] } }))).toBe(100);
    // The first two arrived together: three tokens in 40 ms.
    expect(decodeSpeed(answer({ timing: { chunkTimes: [50, 50.2, 60, 70, 90] } }))).toBe(75);
  });

  it('is unknown when the answer arrived in too few chunks', () => {
    expect(
      decodeSpeed(answer({ timing: { chunkTimes: [200, 200.1, 200.2, 200.3, 200.4] } })),
    ).toBeUndefined();
    expect(decodeSpeed(answer({ timing: { chunkTimes: [] } }))).toBeUndefined();
    expect(overallSpeed(answer({ timing: { chunkTimes: [200, 200.1, 250] } }))).toBe(12);
  });
});

describe('probabilities', () => {
  it('are formatted with their significant digits', () => {
    expect([0.99999, 0.996, 0.005, 0.00000123].map(formatProbability)).toEqual([
      'over 99.9 %',
      '99.6 %',
      '0.50 %',
      '1.2e-4 %',
    ]);
    expect([1, 0.9, 0.5, 0.1, 0.01].map(confidenceOf)).toEqual([
      'sure',
      'sure',
      'likely',
      'unsure',
      'unlikely',
    ]);
  });
});
