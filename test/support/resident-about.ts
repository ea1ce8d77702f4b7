import type { AnswerMetadata } from '../../src/wires/core/wire.ts';

/** What an answer of the resident model says of itself. */
export const residentAbout = (
  body: Readonly<Record<string, unknown>> = {},
  includeUsage = false,
): AnswerMetadata => ({
  requestId: '1',
  model: 'm',
  created: 1,
  request: { body, facts: { includeUsage, answers: 1 } },
  resident: { fingerprint: 'fp' },
});

/** The data of frames of server-sent events. */
export const dataOf = <Data>(frames: string): Data[] =>
  frames
    .split('\n')
    .filter((line) => line.startsWith('data: ') && line !== 'data: [DONE]')
    .map((line) => JSON.parse(line.slice('data: '.length)) as Data);
