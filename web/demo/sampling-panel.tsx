import { useState } from 'react';
import { Field, Panel } from '../ui/index.tsx';
import css from './demo.module.css';
import { samplerFault, type Sampling, type Settings, samplers } from './settings.ts';

type SamplerParameter = (typeof samplers)[number];

/** A number field that keeps what is typed and reports valid values only. */
function SamplerField(props: {
  sampler: SamplerParameter;
  value: number | undefined;
  change: (value: number | undefined) => void;
}) {
  const { sampler, value, change } = props;
  const { label, hint, min, max, step, defaultValue } = sampler;
  const [text, setText] = useState<string>();
  const shown = text ?? (value === undefined ? '' : String(value));
  const fieldFault = (entered: string) =>
    entered === ''
      ? defaultValue === undefined
        ? undefined
        : 'must be a number'
      : samplerFault(sampler, Number(entered));
  return (
    <Field label={label} hint={hint} fault={text === undefined ? undefined : fieldFault(text)}>
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
            setText(target.value);
            // The browser reports input that is not a number as an empty value with `badInput`.
            if (target.validity.badInput || fieldFault(target.value) !== undefined) return;
            change(target.value === '' ? undefined : Number(target.value));
          }}
          onBlur={() => setText(undefined)}
        />
      )}
    </Field>
  );
}

export function SamplingPanel(props: { settings: Settings; change: (changes: Partial<Settings>) => void }) {
  const { settings, change } = props;
  const set = (changes: Partial<Sampling>) => change({ sampling: { ...settings.sampling, ...changes } });
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
