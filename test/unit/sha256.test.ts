import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { sha256 } from '../../src/platform/sha256.ts';

it('hashes as Node does, however the bytes are cut', () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 200, size: 'max' }), { maxLength: 6 }), (parts) => {
      const ours = sha256();
      const theirs = createHash('sha256');
      for (const part of parts) {
        ours.update(part);
        theirs.update(part);
      }
      expect(ours.digest()).toBe(theirs.digest('hex'));
    }),
    { numRuns: 500 },
  );
});

it('hashes around every length at which a block is filled up', () => {
  for (let length = 0; length < 200; length++) {
    const bytes = new Uint8Array(length).fill(0xa5);
    const ours = sha256();
    ours.update(bytes);
    expect(ours.digest()).toBe(createHash('sha256').update(bytes).digest('hex'));
  }
});
