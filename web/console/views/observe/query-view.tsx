import { useEffect, useState } from 'react';
import { useSearchParams } from 'wouter';
import { errorMessage } from '../../../../src/util/error-message.ts';
import { asFault } from '../../../api/fault.ts';
import { CodeEditor, type Diagnostic } from '../../../ui/code-editor.tsx';
import { ProtectedRouteFault } from '../../shell/protected-route.tsx';
import { Button, Field, Loading, Panel, Row } from '../../../ui/index.tsx';
import { useUrlState } from '../../../ui/url-state.ts';
import { useResult, useSchema } from './queries.ts';
import { QueryForm } from './query-form.tsx';
import { draftOf, emptyDraft, queryOf } from './query-draft.ts';
import { narrowerQueries } from './narrower-queries.ts';
import css from './observe.module.css';
import { Result } from './result.tsx';
import type { Query, Surface } from './types.ts';

/** Parses JSON; returns the value or the error message. */
function parseJson(text: string): { readonly value?: unknown; readonly error?: string } {
  try {
    return { value: JSON.parse(text) as unknown };
  } catch (error) {
    return { error: errorMessage(error) };
  }
}

const formatJson = (query: unknown): string => JSON.stringify(query, null, 2);

/** A query as a form or as JSON. The last query run is in the URL, so links and reloads run it again. */
export function QueryView({ surfaces }: { surfaces: readonly Surface[] }) {
  const [search, setSearch] = useSearchParams();
  const [form, setForm] = useUrlState('form', 'fields');
  const urlQuery = search.get('q');
  const urlQueryParsed = urlQuery === null ? undefined : parseJson(urlQuery);
  const [draft, setDraft] = useState(() => {
    const initialDraft = draftOf(urlQueryParsed?.value);
    return initialDraft.surface === ''
      ? emptyDraft(search.get('surface') ?? surfaces[0]?.name ?? '')
      : initialDraft;
  });
  const [text, setText] = useState(() => formatJson(urlQueryParsed?.value ?? { surface: draft.surface }));
  const schema = useSchema(draft.surface);
  const result = useResult(
    urlQueryParsed?.value === undefined ? undefined : { query: urlQueryParsed.value as Query },
  );
  const fault = result.error ? asFault(result.error) : undefined;
  const isJson = form === 'json';
  const parsedText = parseJson(text);
  const draftQuery = queryOf(draft, schema.data?.columns ?? []);

  // Also runs on back and forward navigation.
  useEffect(() => {
    const { value } = urlQuery === null ? {} : parseJson(urlQuery);
    if (value === undefined) return;
    setDraft(draftOf(value));
    setText(formatJson(value));
  }, [urlQuery]);

  const runQuery = (query: unknown) => {
    const q = JSON.stringify(query);
    if (q === urlQuery) void result.refetch();
    else
      setSearch((before) => {
        const after = new URLSearchParams(before);
        after.delete('surface');
        after.set('q', q);
        return after;
      });
  };
  const submit = () => {
    if (!isJson) runQuery(draftQuery);
    else if (parsedText.error === undefined) runQuery(parsedText.value);
  };
  const switchForm = (to: string) => {
    if (to === 'json') setText(formatJson(draftQuery));
    else if (parsedText.error === undefined) setDraft(draftOf(parsedText.value));
    setForm(to);
  };

  return (
    <>
      <Panel
        title="Query"
        tools={
          <Button
            onClick={() => switchForm(isJson ? 'fields' : 'json')}
            disabled={isJson && parsedText.error !== undefined}
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
              onRun={submit}
              diagnostics={diagnosticsOf(parsedText.error)}
            />
            {parsedText.error !== undefined && <p role="status">Invalid JSON: {parsedText.error}</p>}
          </>
        ) : (
          <form
            className={css['form']}
            onSubmit={(event) => {
              event.preventDefault();
              submit();
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
              <ProtectedRouteFault
                what="the columns"
                error={schema.error}
                retry={() => void schema.refetch()}
              />
            )}
            {schema.data && (
              <QueryForm draft={draft} schema={schema.data} onChange={setDraft} fault={fault} />
            )}
            {/* Enter in a field runs the query. */}
            <button type="submit" hidden>
              Run
            </button>
          </form>
        )}
        <Row>
          <Button
            kind="primary"
            busy={result.isFetching && !result.isFetchingNextPage}
            disabled={isJson && parsedText.error !== undefined}
            onClick={submit}
          >
            Run
          </Button>
          {urlQuery === null && <span className={css['muted']}>No query has run yet.</span>}
        </Row>
      </Panel>
      {urlQueryParsed?.error !== undefined && (
        <p role="alert">The query in this page's address is not valid JSON: {urlQueryParsed.error}</p>
      )}
      <Result
        result={result}
        tooLargeHint={
          urlQueryParsed?.value !== undefined && (
            <NarrowerQueries
              query={urlQueryParsed.value as Query}
              time={schema.data?.time}
              runQuery={runQuery}
            />
          )
        }
      />
    </>
  );
}

/** Diagnostic at the position that the parser's message names. */
function diagnosticsOf(error: string | undefined): Diagnostic[] {
  if (error === undefined) return [];
  const [, line, column] = /line (\d+) column (\d+)/.exec(error) ?? [];
  return [{ line: Number(line ?? 1), column: Number(column ?? 1), severity: 'error', message: error }];
}

function NarrowerQueries(props: {
  query: Query;
  time: string | undefined;
  runQuery: (query: Query) => void;
}) {
  const { query, time, runQuery } = props;
  if (time === undefined) return null;
  return (
    <Panel title="Narrow the query">
      <Row>
        {narrowerQueries(query, time).map(({ label: what, query: narrower }) => (
          <Button key={what} onClick={() => runQuery(narrower)}>
            Try {what}
          </Button>
        ))}
      </Row>
    </Panel>
  );
}
