import type { Fault } from '../../api/fault.ts';
import { Button, Field } from '../../parts/index.tsx';
import css from './chat.module.css';
import {
  alternativesOffered,
  faultAt,
  type Sampling,
  type SamplingName,
  samplingFields,
} from './sampling.ts';

/** How the answer is drawn. What is left empty the host decides. */
export function SamplingForm(props: {
  sampling: Sampling;
  set: (name: SamplingName, value: string) => void;
  reset: () => void;
  system: string;
  setSystem: (system: string) => void;
  /** Of the last answer. */
  fault: Fault | undefined;
}) {
  const { sampling, set, reset, system, setSystem, fault } = props;
  return (
    <form className={css['sampling']} onSubmit={(event) => event.preventDefault()}>
      <Field label="System prompt" hint="Said to the model before all else. It stays in this page.">
        {(control) => (
          <textarea {...control} rows={3} value={system} onChange={({ target }) => setSystem(target.value)} />
        )}
      </Field>
      <div className={css['numbers']}>
        {samplingFields.map(({ name, label, usual, step, hint }) => (
          <Field key={name} label={label} hint={hint} fault={faultAt(fault, name)}>
            {(control) => (
              <input
                {...control}
                type="number"
                inputMode="decimal"
                step={step}
                placeholder={usual}
                value={sampling[name]}
                onChange={({ target }) => set(name, target.value)}
              />
            )}
          </Field>
        ))}
      </div>
      <Field
        label="Stop texts"
        fault={faultAt(fault, 'stop')}
        hint="One a line; they end the answer. \n stands for a new line."
      >
        {(control) => (
          <textarea
            {...control}
            rows={2}
            value={sampling.stop}
            onChange={({ target }) => set('stop', target.value)}
          />
        )}
      </Field>
      <Field
        label="Alternatives of each token"
        fault={faultAt(fault, 'top_logprobs')}
        hint="How many of the likeliest tokens are told. Off: no probabilities at all."
      >
        {(control) => (
          <select
            {...control}
            value={sampling.alternatives}
            onChange={({ target }) => set('alternatives', target.value)}
          >
            {[...new Set([...alternativesOffered, sampling.alternatives])].map((count) => (
              <option key={count} value={count}>
                {count === '0' ? "0: the token's own alone" : count}
              </option>
            ))}
          </select>
        )}
      </Field>
      <p>
        <Button onClick={reset}>Back to the host's defaults</Button>
      </p>
    </form>
  );
}
