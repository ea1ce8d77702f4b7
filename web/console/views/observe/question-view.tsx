import { useState } from 'react';
import { Link, useSearchParams } from 'wouter';
import { asFault } from '../../api/fault.ts';
import { Button, Empty, Field, Panel } from '../../parts/index.tsx';
import { useAnswer } from './asking.ts';
import css from './observe.module.css';
import { Result } from './result.tsx';
import type { Parameter, Query, Question } from './types.ts';

const prefix = 'p.';

/** A predefined question; its parameters are kept in the URL. */
export function QuestionView({ question }: { question: Question }) {
  const [search, setSearch] = useSearchParams();
  const { properties = {}, required = [] } = question.parameters;
  const given = Object.fromEntries(
    Object.keys(properties).flatMap((name) => {
      const value = search.get(prefix + name);
      return value === null || value === '' ? [] : [[name, value]];
    }),
  );
  const [typed, setTyped] = useState<Readonly<Record<string, string>>>(given);
  const isComplete = required.every((name) => given[name] !== undefined);
  const answered = useAnswer(isComplete ? { question: question.name, parameters: given } : undefined);
  const fault = answered.error ? asFault(answered.error) : undefined;
  const ask = () => {
    const after = new URLSearchParams(search);
    for (const name of Object.keys(properties)) {
      const value = typed[name] ?? '';
      if (value === '') after.delete(prefix + name);
      else after.set(prefix + name, value);
    }
    if (after.toString() === search.toString()) void answered.refetch();
    else setSearch(after);
  };
  return (
    <>
      <Panel title={question.name.replaceAll('_', ' ')}>
        <p>{question.description}</p>
        <form
          className={css['form']}
          onSubmit={(event) => {
            event.preventDefault();
            ask();
          }}
        >
          <div className={css['filters']}>
            {Object.entries(properties).map(([name, parameter]) => (
              <ParameterField
                key={name}
                name={name}
                parameter={parameter}
                isRequired={required.includes(name)}
                value={typed[name] ?? ''}
                fault={fault?.violations.find(({ path }) => path === `parameters.${name}`)?.message}
                set={(value) => setTyped({ ...typed, [name]: value })}
              />
            ))}
          </div>
          <p>
            <Button
              type="submit"
              kind="primary"
              busy={answered.isFetching}
              disabled={required.some((name) => (typed[name] ?? '') === '')}
            >
              Run
            </Button>
          </p>
        </form>
      </Panel>
      {isComplete ? (
        <Result
          answered={answered}
          tools={({ query }) => <Link href={queryPath(query as Query)}>Open as a query</Link>}
        />
      ) : (
        <Empty title={`Enter ${required.join(', ')} first.`} />
      )}
    </>
  );
}

/** Path of the query view for a query, without its page cursor. */
function queryPath(asked: Query): string {
  const { cursor: _, ...query } = asked;
  return `/console/observe?q=${encodeURIComponent(JSON.stringify(query))}`;
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
  const usual = typeof parameter.default === 'string' ? parameter.default : '';
  return (
    <Field label={isRequired ? `${name} (required)` : name} hint={parameter.description} fault={fault}>
      {(control) =>
        parameter.enum ? (
          <select {...control} value={value} onChange={({ target }) => set(target.value)}>
            <option value="">{usual === '' ? 'any' : `${usual} (default)`}</option>
            {parameter.enum.map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
        ) : (
          <input
            {...control}
            value={value}
            placeholder={usual}
            spellCheck={false}
            onChange={({ target }) => set(target.value)}
          />
        )
      }
    </Field>
  );
}
