import { expect, it } from 'vitest';
import { honestIdeas, proveSearch } from '../support/search-proof.ts';

// The decisions of a search are tested against a scripted lab in lab-search.test.ts.
it('a search on a real host keeps the best honest kernel, through crashes and kills', async () => {
  const proof = await proveSearch([], '8m');
  const verdictOf = (idea: string) =>
    proof.attempts.filter((one) => one.by === 'command' && one.idea === idea).map(({ verdict }) => verdict);
  for (const idea of [
    'forgets the second half of each up block',
    'reads every second block',
    'keeps what was there',
    'never ends',
    'is endless to compile',
  ])
    expect(verdictOf(idea), idea).toEqual(['rejected']);
  expect(['rejected', 'flagged']).toContain(verdictOf('is right for the first token only')[0]);
  const measured = proof.attempts.filter(({ ratio }) => ratio !== undefined);
  for (const idea of honestIdeas) expect(measured.map((one) => one.idea)).toContain(idea);
  // What was measured is honest: the op's stubs, their rewrites, and the two right kernels.
  for (const { by, idea } of measured)
    if (by === 'command') expect(honestIdeas as readonly string[]).toContain(idea);
  for (const { verdict, ratio, finding } of proof.attempts)
    expect(ratio !== undefined || finding !== undefined, verdict).toBe(true);
  const [best] = measured.toSorted((a, b) => (b.low ?? 0) - (a.low ?? 0));
  expect(proof.best).toBe(best?.idea);
  expect(proof.verified).toEqual({ ok: true, findings: [] });
  expect(proof.saved?.rounds).toBeGreaterThan(0);
  expect(proof.boundSource).toBe(proof.savedSource);
  expect(proof.bound).toHaveLength(4);
});
