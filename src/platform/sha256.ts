import { sha256 as hash } from '@noble/hashes/sha2.js';
import { bytesToHex } from '@noble/hashes/utils.js';
import type { Hasher } from '../engine/index.ts';

/** Incremental SHA-256. The Web Crypto API hashes only data that is completely in memory. */
export const sha256 = (): Hasher => {
  const state = hash.create();
  return {
    update(bytes) {
      state.update(bytes);
    },
    digest: () => bytesToHex(state.digest()),
  };
};
