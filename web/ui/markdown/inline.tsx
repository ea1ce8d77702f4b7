import type { MarkedToken, Token } from 'marked';
import { type ReactNode } from 'react';
import { Formula } from './math.tsx';
import { mathOf } from './math-tokens.ts';
import { safeUrl } from './safe-url.ts';

/** Tokens with a key: their position in the text, which stays the same while the text grows. */
export function keyed(tokens: readonly Token[]): { readonly key: number; readonly token: MarkedToken }[] {
  let at = 0;
  return tokens.map((token) => {
    const key = at;
    at += token.raw.length;
    return { key, token: token as MarkedToken };
  });
}

/** Inline Markdown as elements. HTML stays text, and images of other servers are links. */
export const Inline = ({ tokens }: { tokens: readonly Token[] }) =>
  keyed(tokens).map(({ key, token }) => <InlineToken key={key} token={token} />);

function InlineToken({ token }: { token: MarkedToken }): ReactNode {
  const math = mathOf(token);
  if (math) return <Formula math={math} />;
  switch (token.type) {
    case 'text':
      return token.tokens ? <Inline tokens={token.tokens} /> : decodeEntities(token.text);
    case 'escape':
      return token.text;
    case 'strong':
      return (
        <strong>
          <Inline tokens={token.tokens} />
        </strong>
      );
    case 'em':
      return (
        <em>
          <Inline tokens={token.tokens} />
        </em>
      );
    case 'del':
      return (
        <del>
          <Inline tokens={token.tokens} />
        </del>
      );
    case 'codespan':
      return <code>{token.text}</code>;
    case 'br':
      return <br />;
    case 'checkbox':
      return token.checked ? '☑ ' : '☐ ';
    case 'link':
      return (
        <Link url={token.href}>
          <Inline tokens={token.tokens} />
        </Link>
      );
    case 'image':
      return <Link url={token.href}>Image: {token.text === '' ? token.href : token.text}</Link>;
    case 'html':
      // The one element that models write in cells of tables.
      return /^<br\s*\/?>$/i.test(token.raw) ? <br /> : token.raw;
    default:
      return token.raw;
  }
}

function Link({ url, children }: { url: string; children: ReactNode }) {
  const href = safeUrl(url);
  if (href === undefined) return <>{children}</>;
  return (
    <a href={href} target="_blank" rel="noopener noreferrer nofollow">
      {children}
    </a>
  );
}

/** Replaces character references, which the parser leaves in texts. A reference alone cannot contain an element. */
const decodeEntities = (text: string): string =>
  text.replaceAll(
    /&(?:#\d{1,7}|#x[\da-f]{1,6}|[a-z][a-z\d]{1,31});/gi,
    (reference) =>
      new DOMParser().parseFromString(reference, 'text/html').documentElement.textContent ?? reference,
  );
