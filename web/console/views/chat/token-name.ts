import { visibleToken } from './answer.ts';

/** A token as it can be read: the bytes of one that holds a part of a character. */
export const tokenName = ({ token, bytes }: { token: string; bytes: readonly number[] }): string =>
  token.includes('\uFFFD')
    ? bytes.map((byte) => byte.toString(16).padStart(2, '0')).join(' ')
    : visibleToken(token);
