import { useEffect, useState } from 'react';
import { useSearchParams } from 'wouter';
import { errorMessage } from '../../../../src/util/error-message.ts';
import { asFault } from '../../api/fault.ts';
import { CodeEditor, type Diagnostic } from '../../parts/code-editor.tsx';
import { GatedFault } from '../../parts/gated.tsx';
import { Button, Field, Loading, Panel, Row } from '../../parts/index.tsx';
import { useUrlState } from '../../parts/url-state.ts';
import { useAnswer, useSchema } from './asking.ts';
import { Builder } from './builder.tsx';
import { draftOf, emptyDraft, queryOf } from './draft.ts';
import { narrowings } from './narrow.ts';
import css from './observe.module.css';
import { Result } from './result.tsx';
import type { Query, Surface } from './types.ts';

/** Parses JSON; returns the value or the error message. */
function parsed(text: string): { readonly value?: unknown; readonly wrong?: string } {
  try {
    return { value: JSON.parse(text) as unknown };
  } catch (error) {
    return { wrong: errorMessage(error) };
  }
}

const pretty = (query: unknown): string => JSON.stringify(query, null, 2);

/** A query as a form or as JSON. The last query run is in the URL, so links and reloads run it again. */
export function QueryView({ surfaces }: { surfaces: readonly Surface[] }) {
  const [search, setSearch] = useSearchParams();
  const [form, setForm] = useUrlState('form', 'fields');
  const written = search.get('q');
  const asked = written === null ? undefined : parsed(written);
  const [draft, setDraft] = useState(() => {
    const kept = draftOf(asked?.value);
    return kept.surface === '' ? emptyDraft(search.get('surface') ?? surfaces[0]?.name ?? '') : kept;
  });
  const [text, setText] = useState(() => pretty(asked?.value ?? { surface: draft.surface }));
  const schema = useSchema(draft.surface);
  const answered = useAnswer(asked?.value === undefined ? undefined : { query: asked.value as Query });
  const fault = answered.error ? asFault(answered.error) : undefined;
  const isJson = form === 'json';
  const typed = parsed(text);
  const drafted = queryOf(draft, schema.data?.columns ?? []);

  // Also runs on back and forward navigation.
  useEffect(() => {
    const { value } = written === null ? {} : parsed(written);
    if (value === undefined) return;
    setDraft(draftOf(value));
    setText(pretty(value));
  }, [written]);

  const ask = (query: unknown) => {
    const q = JSON.stringify(query);
    if (q === written) void answered.refetch();
    else
      setSearch((before) => {
        const after = new URLSearchParams(before);
        after.delete('surface');
        after.set('q', q);
        return after;
      });
  };
  const run = () => {
    if (!isJson) ask(drafted);
    else if (typed.wrong === undefined) ask(typed.value);
  };
  const change = (to: string) => {
    if (to === 'json') setText(pretty(drafted));
    else if (typed.wrong === undefined) setDraft(draftOf(typed.value));
    setForm(to);
  };

  return (
    <>
      <Panel
        title="Query"
        tools={
          <Button
            onClick={() => change(isJson ? 'fields' : 'json')}
            disabled={isJson && typed.wrong !== undefined}
          >
            {isJson ? 'Edit as form' : 'Edit as JSON'}
          </Button>
        }
      >
        {isJson ? (
          <>
            <CodeEditor
              label="Query as JSON; Ctrl+Enter runs it"
              language="json"
              lines={24}
              value={text}
              onChange={setText}
              onRun={run}
              diagnostics={diagnosticsOf(typed.wrong)}
            />
            {typed.wrong !== undefined && <p role="status">Invalid JSON: {typed.wrong}</p>}
          </>
        ) : (
          <form
            className={css['form']}
            onSubmit={(event) => {
              event.preventDefault();
              run();
            }}
          >
            <Field label="Surface" hint={surfaces.find(({ name }) => name === draft.surface)?.description}>
              {(control) => (
                <select
                  {...control}
                  value={draft.surface}
                  onChange={({ target }) => setDraft(emptyDraft(target.value))}
                >
                  {[...new Set([...surfaces.map(({ name }) => name), draft.surface])].map((name) => (
                    <option key={name}>{name}</option>
                  ))}
                </select>
              )}
            </Field>
            {schema.isLoading && <Loading what="the columns" />}
            {schema.isError && (
              <GatedFault what="the columns" error={schema.error} retry={() => void schema.refetch()} />
            )}
            {schema.data && <Builder draft={draft} schema={schema.data} change={setDraft} fault={fault} />}
            {/* Enter in a field runs the query. */}
            <button type="submit" hidden>
              Run
            </button>
          </form>
        )}
        <Row>
          <Button
            kind="primary"
            busy={answered.isFetching && !answered.isFetchingNextPage}
            disabled={isJson && typed.wrong !== undefined}
            onClick={run}
          >
            Run
          </Button>
          {written === null && <span className={css['muted']}>No query has run yet.</span>}
        </Row>
      </Panel>
      {asked?.wrong !== undefined && (
        <p role="alert">The query in this page's address is not valid JSON: {asked.wrong}</p>
      )}
      <Result
        answered={answered}
        whenTooMuch={
          asked?.value !== undefined && (
            <Narrower query={asked.value as Query} time={schema.data?.time} ask={ask} />
          )
        }
      />
    </>
  );
}

/** Diagnostic at the position that the parser's message names. */
function diagnosticsOf(wrong: string | undefined): Diagnostic[] {
  if (wrong === undefined) return [];
  const [, line, column] = /line (\d+) column (\d+)/.exec(wrong) ?? [];
  return [{ line: Number(line ?? 1), column: Number(column ?? 1), severity: 'error', message: wrong }];
}

function Narrower(props: { query: Query; time: string | undefined; ask: (query: Query) => void }) {
  const { query, time, ask } = props;
  if (time === undefined) return null;
  return (
    <Panel title="Narrow the query">
      <Row>
        {narrowings(query, time).map(({ what, query: less }) => (
          <Button key={what} onClick={() => ask(less)}>
            Try {what}
          </Button>
        ))}
      </Row>
    </Panel>
  );
}
