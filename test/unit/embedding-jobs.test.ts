import { describe, expect, test } from 'vitest';
import { createPair } from '../../src/engine/ranking/pair-encoder.ts';
import { EmbeddingJobs } from '../../src/engine/scheduling/embedding-jobs.ts';

describe('pairs of query and document', () => {
  test('the pairs of a query share its tokens, which are joined with the document when the text starts', () => {
    const frame = { before: [1, 2, 3], after: [9] };
    const pairs = Array.from({ length: 1000 }, (_, at) => createPair(frame, [10 + at]));
    expect(pairs.every(({ before, after }) => before === frame.before && after === frame.after)).toBe(true);
    const jobs = new EmbeddingJobs();
    void jobs.add(pairs);
    expect(jobs.peekLength()).toBe(5);
    expect(jobs.take()).toMatchObject({ tokens: [1, 2, 3, 10, 9], secondSegment: 3 });
    expect(jobs.take()).toMatchObject({ tokens: [1, 2, 3, 11, 9], secondSegment: 3 });
    // No other text is joined yet.
    expect(
      pairs.flatMap((pair) => Object.values(pair)).filter((part) => Array.isArray(part) && part.length > 3),
    ).toEqual([]);
  });

  test('a text without a query has one segment', () => {
    const jobs = new EmbeddingJobs();
    void jobs.add([[4, 5]]);
    expect(jobs.peekLength()).toBe(2);
    expect(jobs.take()).toMatchObject({ tokens: [4, 5], secondSegment: undefined });
    expect(jobs.peekLength()).toBeUndefined();
  });
});
