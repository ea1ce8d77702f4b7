import { useState } from 'react';
import { Link, useSearchParams } from 'wouter';
import { asFault } from '../../../api/fault.ts';
import { Button, Empty, Field, Panel } from '../../../ui/index.tsx';
import { useResult } from './queries.ts';
import css from './observe.module.css';
import { Result } from './result.tsx';
import type { Parameter, Query, Question } from './types.ts';

const parameterPrefix = 'p.';

/** A predefined question; its parameters are kept in the URL. */
export function QuestionView({ question }: { question: Question }) {
  const [search, setSearch] = useSearchParams();
  const { properties = {}, required = [] } = question.parameters;
  const urlParameters = Object.fromEntries(
    Object.keys(properties).flatMap((name) => {
      const value = search.get(parameterPrefix + name);
      return value === null || value === '' ? [] : [[name, value]];
    }),
  );
  const [values, setValues] = useState<Readonly<Record<string, string>>>(urlParameters);
  const isComplete = required.every((name) => urlParameters[name] !== undefined);
  const result = useResult(isComplete ? { question: question.name, parameters: urlParameters } : undefined);
  const fault = result.error ? asFault(result.error) : undefined;
  const run = () => {
    const nextSearch = new URLSearchParams(search);
    for (const name of Object.keys(properties)) {
      const value = values[name] ?? '';
      if (value === '') nextSearch.delete(parameterPrefix + name);
      else nextSearch.set(parameterPrefix + name, value);
    }
    if (nextSearch.toString() === search.toString()) void result.refetch();
    else setSearch(nextSearch);
  };
  return (
    <>
      <Panel title={question.name.replaceAll('_', ' ')}>
        <p>{question.description}</p>
        <form
          className={css['form']}
          onSubmit={(event) => {
            event.preventDefault();
            run();
          }}
        >
          <div className={css['filters']}>
            {Object.entries(properties).map(([name, parameter]) => (
              <ParameterField
                key={name}
                name={name}
                parameter={parameter}
                isRequired={required.includes(name)}
                value={values[name] ?? ''}
                fault={fault?.violations.find(({ path }) => path === `parameters.${name}`)?.message}
                set={(value) => setValues({ ...values, [name]: value })}
              />
            ))}
          </div>
          <p>
            <Button
              type="submit"
              kind="primary"
              busy={result.isFetching}
              disabled={required.some((name) => (values[name] ?? '') === '')}
            >
              Run
            </Button>
          </p>
        </form>
      </Panel>
      {isComplete ? (
        <Result
          result={result}
          tools={({ query }) => <Link href={queryPath(query as Query)}>Open as a query</Link>}
        />
      ) : (
        <Empty title="The question needs values.">{`Enter ${required.join(', ')}.`}</Empty>
      )}
    </>
  );
}

/** Path of the query view for a query, without its page cursor. */
function queryPath(fullQuery: Query): string {
  const { cursor: _, ...query } = fullQuery;
  return `/console/observe/explore?q=${encodeURIComponent(JSON.stringify(query))}`;
}

function ParameterField(props: {
  name: string;
  parameter: Parameter;
  isRequired: boolean;
  value: string;
  fault: string | undefined;
  set: (value: string) => void;
}) {
  const { name, parameter, isRequired, value, fault, set } = props;
  const defaultText = typeof parameter.default === 'string' ? parameter.default : '';
  return (
    <Field label={isRequired ? `${name} (required)` : name} hint={parameter.description} fault={fault}>
      {(control) =>
        parameter.enum ? (
          <select {...control} value={value} onChange={({ target }) => set(target.value)}>
            <option value="">{defaultText === '' ? 'any' : `${defaultText} (default)`}</option>
            {parameter.enum.map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
        ) : (
          <input
            {...control}
            value={value}
            placeholder={defaultText}
            spellCheck={false}
            onChange={({ target }) => set(target.value)}
          />
        )
      }
    </Field>
  );
}
