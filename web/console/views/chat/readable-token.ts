import { showWhitespace } from './answer.ts';

/** Readable form of a token; its bytes in hex when it holds part of a character. */
export const readableToken = ({ token, bytes }: { token: string; bytes: readonly number[] }): string =>
  token.includes('\uFFFD')
    ? bytes.map((byte) => byte.toString(16).padStart(2, '0')).join(' ')
    : showWhitespace(token);
