import { useState } from 'react';
import { Field, Panel } from '../console/parts/index.tsx';
import css from './demo.module.css';
import { faultOfSampler, type Sampling, type Settings, samplers } from './settings.ts';

type SamplerOf = (typeof samplers)[number];

/** A number field that keeps what is typed and reports valid values only. */
function SamplerField(props: {
  sampler: SamplerOf;
  value: number | undefined;
  change: (value: number | undefined) => void;
}) {
  const { sampler, value, change } = props;
  const { label, hint, min, max, step, usual } = sampler;
  const [typed, setTyped] = useState<string>();
  const shown = typed ?? (value === undefined ? '' : String(value));
  const faultOf = (text: string) =>
    text === ''
      ? usual === undefined
        ? undefined
        : 'must be a number'
      : faultOfSampler(sampler, Number(text));
  return (
    <Field label={label} hint={hint} fault={typed === undefined ? undefined : faultOf(typed)}>
      {(control) => (
        <input
          {...control}
          type="number"
          inputMode="decimal"
          min={min}
          max={max}
          step={step}
          value={shown}
          onChange={({ target }) => {
            setTyped(target.value);
            // The browser reports input that is not a number as an empty value with `badInput`.
            if (target.validity.badInput || faultOf(target.value) !== undefined) return;
            change(target.value === '' ? undefined : Number(target.value));
          }}
          onBlur={() => setTyped(undefined)}
        />
      )}
    </Field>
  );
}

export function SamplingPanel(props: { settings: Settings; change: (some: Partial<Settings>) => void }) {
  const { settings, change } = props;
  const set = (some: Partial<Sampling>) => change({ sampling: { ...settings.sampling, ...some } });
  return (
    <Panel title="Sampling">
      <Field label="System prompt" hint="Sent before the conversation.">
        {(control) => (
          <textarea
            {...control}
            rows={2}
            value={settings.system}
            onChange={({ target }) => change({ system: target.value })}
          />
        )}
      </Field>
      <div className={css['samplers']}>
        {samplers.map((sampler) => (
          <SamplerField
            key={sampler.name}
            sampler={sampler}
            value={settings.sampling[sampler.name]}
            change={(value) => set({ [sampler.name]: value })}
          />
        ))}
      </div>
    </Panel>
  );
}
