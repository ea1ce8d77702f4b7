import { sha256 as hash } from '@noble/hashes/sha2.js';
import { bytesToHex } from '@noble/hashes/utils.js';
import type { Hasher } from '../engine/index.ts';

/** SHA-256 in parts: browsers themselves only hash what lies in memory as a whole. */
export const sha256 = (): Hasher => {
  const state = hash.create();
  return {
    update(bytes) {
      state.update(bytes);
    },
    digest: () => bytesToHex(state.digest()),
  };
};
