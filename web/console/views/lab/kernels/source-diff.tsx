import { partsCss } from '../../../../ui/index.tsx';
import { escapeInvisible } from '../../../../ui/format.ts';
import { useUrlState } from '../../../../ui/url-state.ts';
import { type DiffRow, diffRows, type DiffSide } from './diff-rows.ts';
import css from './source-diff.module.css';

/** Two sources side by side or unified, with line numbers. The selected layout is in the URL. */
export function SourceDiff({ before, after, label }: { before: string; after: string; label: string }) {
  const [layout, setLayout] = useUrlState('layout', innerWidth < 900 ? 'unified' : 'split');
  const rows = diffRows(before, after);
  if (!rows.some(({ kind }) => kind !== 'equal' && kind !== 'omitted'))
    return <p role="status">The sources are equal.</p>;
  return (
    <div className={css['diff']}>
      <label className={css['choice']}>
        Layout{' '}
        <select value={layout} onChange={({ target }) => setLayout(target.value)}>
          <option value="split">side by side</option>
          <option value="unified">unified</option>
        </select>
      </label>
      {/* A scrollable region must be focusable by keyboard. */}
      <div className={css['box']} role="region" aria-label={label} tabIndex={0}>
        <table className={`${css['lines']} ${layout === 'split' ? css['split'] : ''}`}>
          <thead>
            <tr>
              {layout === 'split' ? (
                <>
                  <th scope="col">Line</th>
                  <th scope="col">Before</th>
                  <th scope="col">Line</th>
                  <th scope="col">After</th>
                </>
              ) : (
                <>
                  <th scope="col">Before</th>
                  <th scope="col">After</th>
                  <th scope="col">Source</th>
                </>
              )}
            </tr>
          </thead>
          <tbody>
            {rows.map((row, index) =>
              // oxlint-disable-next-line react/no-array-index-key -- lines of a diff have no key other than their index
              layout === 'split' ? <SplitRow key={index} row={row} /> : <UnifiedRow key={index} row={row} />,
            )}
          </tbody>
        </table>
      </div>
    </div>
  );
}

const Omitted = ({ count, columns }: { count: number; columns: number }) => (
  <tr className={css['omitted']}>
    <td colSpan={columns}>{count === 1 ? '1 equal line' : `${count} equal lines`}</td>
  </tr>
);

function SplitRow({ row }: { row: DiffRow }) {
  if (row.kind === 'omitted') return <Omitted count={row.count} columns={4} />;
  const isEqual = row.kind === 'equal';
  return (
    <tr>
      <Side side={row.before} mark={isEqual ? ' ' : '-'} />
      <Side side={row.after} mark={isEqual ? ' ' : '+'} />
    </tr>
  );
}

function Side({ side, mark }: { side: DiffSide | undefined; mark: Mark }) {
  if (!side)
    return (
      <td className={css['none']} colSpan={2}>
        <span className={partsCss['visuallyHidden']}>no line</span>
      </td>
    );
  return (
    <>
      <td className={css['number']}>{side.line}</td>
      <Line text={side.text} mark={mark} />
    </>
  );
}

function UnifiedRow({ row }: { row: DiffRow }) {
  if (row.kind === 'omitted') return <Omitted count={row.count} columns={3} />;
  const { kind, before, after } = row;
  const line = (left: DiffSide | undefined, right: DiffSide | undefined, mark: Mark) => (
    <tr>
      <td className={css['number']}>{left?.line}</td>
      <td className={css['number']}>{right?.line}</td>
      <Line text={(left ?? right)?.text ?? ''} mark={mark} />
    </tr>
  );
  if (kind === 'equal') return line(before, after, ' ');
  return (
    <>
      {before && line(before, undefined, '-')}
      {after && line(undefined, after, '+')}
    </>
  );
}

type Mark = '+' | '-' | ' ';
const marked = { '+': 'added', '-': 'removed', ' ': 'equal' } as const;

/** Lines keep their + and - marks, so that the meaning does not depend on color. */
const Line = ({ text, mark }: { text: string; mark: Mark }) => (
  <td className={css[marked[mark]]}>
    {mark}
    {escapeInvisible(text)}
  </td>
);
