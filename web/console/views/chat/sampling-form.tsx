import { useQuery } from '@tanstack/react-query';
import { api, unwrap } from '../../../api/client.ts';
import type { Fault } from '../../../api/fault.ts';
import { Button, Field } from '../../../ui/index.tsx';
import css from './chat.module.css';
import { alternativeChoices, faultAt, type Sampling, type SamplingName, samplingFields } from './sampling.ts';

/** Form for sampling parameters. Empty fields use the defaults of the host. */
export function SamplingForm(props: {
  sampling: Sampling;
  set: (name: SamplingName, value: string) => void;
  reset: () => void;
  system: string;
  setSystem: (system: string) => void;
  /** Error of the last request. */
  fault: Fault | undefined;
}) {
  const { sampling, set, reset, system, setSystem, fault } = props;
  return (
    <form className={css['sampling']} onSubmit={(event) => event.preventDefault()}>
      <Field label="System prompt" hint="Sent before the conversation, and stored with it.">
        {(control) => (
          <textarea {...control} rows={3} value={system} onChange={({ target }) => setSystem(target.value)} />
        )}
      </Field>
      <ModelField
        model={sampling.model}
        setModel={(model) => set('model', model)}
        fault={faultAt(fault, 'model')}
      />
      <div className={css['numbers']}>
        {samplingFields.map(({ name, label, defaultText, step, hint }) => (
          <Field key={name} label={label} hint={hint} fault={faultAt(fault, name)}>
            {(control) => (
              <input
                {...control}
                type="number"
                inputMode="decimal"
                step={step}
                placeholder={defaultText}
                value={sampling[name]}
                onChange={({ target }) => set(name, target.value)}
              />
            )}
          </Field>
        ))}
      </div>
      <Field
        label="Stop sequences"
        fault={faultAt(fault, 'stop')}
        hint="One per line. Generation stops at the first match. \n stands for a line break."
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
        label="Tools"
        fault={faultAt(fault, 'tools')}
        hint="JSON array of function definitions. Calls are shown, and you write their results."
      >
        {(control) => (
          <textarea
            {...control}
            rows={2}
            spellCheck={false}
            value={sampling.tools}
            onChange={({ target }) => set('tools', target.value)}
          />
        )}
      </Field>
      <Field
        label="Token alternatives"
        fault={faultAt(fault, 'top_logprobs')}
        hint="Number of most likely tokens to show per position. Off: no probabilities."
      >
        {(control) => (
          <select
            {...control}
            value={sampling.alternatives}
            onChange={({ target }) => set('alternatives', target.value)}
          >
            {[...new Set([...alternativeChoices, sampling.alternatives])].map((count) => (
              <option key={count} value={count}>
                {count === '0' ? '0: only the sampled token' : count}
              </option>
            ))}
          </select>
        )}
      </Field>
      <p>
        <Button onClick={reset}>Reset to the host's defaults</Button>
      </p>
    </form>
  );
}

/** The model that answers, of those that the host can load; nothing where there is only one. */
function ModelField(props: { model: string; setModel: (model: string) => void; fault: string | undefined }) {
  const { model, setModel, fault } = props;
  const models = useQuery({
    queryKey: ['v1', 'models'],
    queryFn: async () => await unwrap(api.GET('/v1/models')),
  });
  const ids = (models.data?.data ?? [])
    .filter(({ kind }) => kind === undefined || kind === 'generate')
    .map(({ id }) => id);
  if (ids.length < 2 && model === '') return null;
  return (
    <Field label="Model" fault={fault}>
      {(control) => (
        <select {...control} value={model} onChange={({ target }) => setModel(target.value)}>
          <option value="">Resident model</option>
          {[...new Set([...ids, ...(model === '' ? [] : [model])])].map((id) => (
            <option key={id} value={id}>
              {id}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}
