import type { MarkedToken, Token, Tokens } from 'marked';
import { memo, type ReactNode, useMemo, useRef } from 'react';
import { type ParsedText, parseBlocks } from './blocks.ts';
import { CodeBlock } from './code-block.tsx';
import { Inline, keyed } from './inline.tsx';
import css from './markdown.module.css';
import { Formula } from './math.tsx';
import { mathOf } from './math-tokens.ts';

/**
 * A model's Markdown as elements. Nothing of the text becomes HTML: elements are made from the parsed text, HTML in it is
 * shown as text, links have safe protocols, and nothing is loaded from other servers.
 *
 * @param of.isGrowing whether more text follows; finished blocks are then parsed and rendered once
 */
export function Markdown({ text, isGrowing = false }: { text: string; isGrowing?: boolean }) {
  const before = useRef<ParsedText>(undefined);
  const { blocks, hasDefinitions } = useMemo(() => {
    before.current = parseBlocks(text, isGrowing ? before.current : undefined);
    return before.current;
  }, [text, isGrowing, before]);
  return (
    <div className={css['markdown']}>
      {blocks.map(({ start, token }, index) => (
        <MemoizedBlock
          key={start}
          token={token}
          isOpen={isGrowing && index === blocks.length - 1}
          hasDefinitions={hasDefinitions}
        />
      ))}
    </div>
  );
}

interface BlockProps {
  readonly token: Token;
  /** Whether the block may still grow. */
  readonly isOpen: boolean;
  readonly hasDefinitions: boolean;
}

/** The same source makes the same elements, unless its links refer to definitions. */
const MemoizedBlock = memo(
  function MemoizedBlock({ token, isOpen }: BlockProps) {
    return <Block token={token as MarkedToken} isOpen={isOpen} />;
  },
  (before, after) =>
    before.token.raw === after.token.raw &&
    before.token.type === after.token.type &&
    before.isOpen === after.isOpen &&
    !after.hasDefinitions,
);

const Blocks = ({ tokens, isOpen }: { tokens: readonly Token[]; isOpen: boolean }) =>
  keyed(tokens).map(({ key, token }) => <Block key={key} token={token} isOpen={isOpen} />);

function Block({ token, isOpen }: { token: MarkedToken; isOpen: boolean }): ReactNode {
  const math = mathOf(token);
  if (math) return <Formula math={math} />;
  switch (token.type) {
    case 'space':
    case 'def':
      return null;
    case 'paragraph':
      return (
        <p>
          <Inline tokens={token.tokens} />
        </p>
      );
    case 'heading': {
      // The page has the first heading, and the view the second ones.
      const Heading = `h${Math.min(token.depth + 2, 6)}` as 'h3' | 'h4' | 'h5' | 'h6';
      return (
        <Heading>
          <Inline tokens={token.tokens} />
        </Heading>
      );
    }
    case 'code':
      return <CodeBlock code={token.text} language={token.lang ?? ''} isOpen={isOpen} />;
    case 'blockquote':
      return (
        <blockquote>
          <Blocks tokens={token.tokens} isOpen={isOpen} />
        </blockquote>
      );
    case 'hr':
      return <hr />;
    case 'list':
      return <List list={token} isOpen={isOpen} />;
    case 'table':
      return <MarkdownTable table={token} />;
    case 'html':
      return <p>{token.raw.trim()}</p>;
    default:
      return <Inline tokens={[token]} />;
  }
}

/** A list may be as long as the answer: finished items are rendered once. */
function List({ list, isOpen }: { list: Tokens.List; isOpen: boolean }) {
  const items = keyed(list.items);
  const elements = items.map(({ key, token }, index) => (
    <MemoizedItem key={key} item={token as Tokens.ListItem} isOpen={isOpen && index === items.length - 1} />
  ));
  return list.ordered ? <ol start={Number(list.start)}>{elements}</ol> : <ul>{elements}</ul>;
}

const MemoizedItem = memo(
  function MemoizedItem({ item, isOpen }: { item: Tokens.ListItem; isOpen: boolean }) {
    return (
      <li>
        <Blocks tokens={item.tokens} isOpen={isOpen} />
      </li>
    );
  },
  (before, after) =>
    before.item.raw === after.item.raw &&
    before.item.loose === after.item.loose &&
    before.isOpen === after.isOpen &&
    !hasReference(after.item.raw),
);

/** Whether a text may have links to definitions elsewhere in the text, which change without it. */
const hasReference = (raw: string): boolean => /\[(?![ xX]\])[^\]]*\](?!\()/.test(raw);

function MarkdownTable({ table }: { table: Tokens.Table }) {
  return (
    <div className={css['tableBox']} role="region" aria-label="Table" tabIndex={0}>
      <table>
        <thead>
          <MemoizedRow cells={table.header} />
        </thead>
        <tbody>
          {table.rows.map((row, index) => (
            // oxlint-disable-next-line react/no-array-index-key -- rows have no key other than their index
            <MemoizedRow key={index} cells={row} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

const MemoizedRow = memo(
  function MemoizedRow({ cells }: { cells: readonly Tokens.TableCell[] }) {
    return (
      <tr>
        {cells.map(({ tokens, align, header }, column) => {
          const Cell = header ? 'th' : 'td';
          return (
            <Cell
              // oxlint-disable-next-line react/no-array-index-key -- cells have no key other than their column
              key={column}
              {...(header ? { scope: 'col' } : {})}
              {...(align === null ? {} : { style: { textAlign: align } })}
            >
              <Inline tokens={tokens} />
            </Cell>
          );
        })}
      </tr>
    );
  },
  ({ cells: before }, { cells: after }) =>
    before.length === after.length &&
    before.every(
      ({ text, align }, column) => text === after[column]?.text && align === after[column]?.align,
    ) &&
    !after.some(({ text }) => hasReference(text)),
);
