/** Optimizer classes as programs write them. Each class keeps its state in another way. */
import type * as tfjs from '@tensorflow/tfjs';

type Given = { readonly name: string; readonly tensor: tfjs.Tensor | null };
type Weights = { name: string; tensor: tfjs.Tensor }[];

export const OWN_KINDS = [
  ...['slots', 'variables', 'object', 'map', 'by variable', 'by id', 'numbers', 'tensor', 'wrapper', 'derived', 'private', 'nested'],
] as const;

export type OwnKind =
  | 'slots'
  | 'variables'
  | 'object'
  | 'map'
  | 'by variable'
  | 'by id'
  | 'numbers'
  | 'tensor'
  | 'wrapper'
  | 'derived'
  | 'private'
  | 'nested';

export function makeOwn(tf: typeof tfjs, kind: OwnKind, rate: number): tfjs.Optimizer {
  const listOf = (gradients: tfjs.NamedTensorMap | readonly Given[]): readonly Given[] =>
    Array.isArray(gradients) ? (gradients as readonly Given[]) : Object.entries(gradients).map(([name, tensor]) => ({ name, tensor }));
  const variableOf = (name: string) => tf.engine().registeredVariables[name] as tfjs.Variable;
  const zeros = (variable: tfjs.Variable) => tf.tidy(() => tf.zerosLike(variable).variable(false));

  abstract class Own extends tf.Optimizer {
    learningRate = rate;

    abstract factorOf(variable: tfjs.Variable, gradient: tfjs.Tensor, index: number): tfjs.Tensor;

    before(): void {}

    applyGradients(gradients: tfjs.NamedTensorMap | Given[]): void {
      this.before();
      for (const [index, { name, tensor }] of listOf(gradients as tfjs.NamedTensorMap).entries()) {
        const variable = variableOf(name);
        if (tensor !== null && tensor !== undefined) {
          tf.tidy(() => variable.assign(tf.sub(variable, tf.mul(this.factorOf(variable, tensor, index), this.learningRate))));
        }
      }
      this.incrementIterations();
    }

    /** Changes the state like momentum does, and returns the new state. */
    moved(state: tfjs.Variable, gradient: tfjs.Tensor): tfjs.Tensor {
      state.assign(tf.add(tf.mul(state, 0.9), gradient));
      return state;
    }

    getConfig() {
      return { learningRate: this.learningRate };
    }
  }

  switch (kind) {
    case 'slots':
      return new (class Slots extends Own {
        momenta: { originalName: string; variable: tfjs.Variable }[] = [];

        factorOf(variable: tfjs.Variable, gradient: tfjs.Tensor, index: number) {
          this.momenta[index] ??= { originalName: `${variable.name}/momentum`, variable: zeros(variable) };
          return this.moved(this.momenta[index].variable, gradient);
        }
      })();
    case 'variables':
      return new (class Variables extends Own {
        momenta: tfjs.Variable[] | undefined;

        factorOf(variable: tfjs.Variable, gradient: tfjs.Tensor, index: number) {
          this.momenta ??= [];
          this.momenta[index] ??= zeros(variable);
          return this.moved(this.momenta[index], gradient);
        }
      })();
    case 'object':
      return new (class ByName extends Own {
        v: Record<string, tfjs.Variable> = {};

        factorOf(variable: tfjs.Variable, gradient: tfjs.Tensor) {
          this.v[variable.name] ??= zeros(variable);
          return this.moved(this.v[variable.name] as tfjs.Variable, gradient);
        }

        override async getWeights() {
          return [await this.saveIterations(), ...Object.entries(this.v).map(([name, tensor]) => ({ name, tensor }))];
        }

        override async setWeights(weights: Weights) {
          for (const { name, tensor } of await this.extractIterations(weights)) {
            this.v[name] = tf.variable(tensor, false);
          }
        }
      })();
    case 'map':
      return new (class InMap extends Own {
        readonly state = new Map<string, { m: tfjs.Variable; steps: number }>();

        factorOf(variable: tfjs.Variable, gradient: tfjs.Tensor) {
          const state = this.state.get(variable.name) ?? { m: zeros(variable), steps: 0 };
          this.state.set(variable.name, state);
          state.steps++;
          return tf.div(this.moved(state.m, gradient), 1 - 0.9 ** state.steps);
        }
      })();
    case 'by variable':
      return new (class ByVariable extends Own {
        readonly state = new Map<tfjs.Variable, tfjs.Variable>();

        factorOf(variable: tfjs.Variable, gradient: tfjs.Tensor) {
          const state = this.state.get(variable) ?? zeros(variable);
          this.state.set(variable, state);
          return this.moved(state, gradient);
        }
      })();
    case 'by id':
      return new (class ById extends Own {
        readonly state = new Map<number, tfjs.Variable>();

        factorOf(variable: tfjs.Variable, gradient: tfjs.Tensor) {
          const state = this.state.get(variable.id) ?? zeros(variable);
          this.state.set(variable.id, state);
          return this.moved(state, gradient);
        }
      })();
    case 'numbers':
      return new (class Numbers extends Own {
        t = 0;
        largest = Number.NEGATIVE_INFINITY;
        readonly seen: number[] = [];

        override before() {
          this.t++;
        }

        factorOf(_: tfjs.Variable, gradient: tfjs.Tensor) {
          const norm = tf.norm(gradient).dataSync()[0] as number;
          this.largest = Math.max(this.largest, norm);
          this.seen.push(norm);
          return tf.mul(gradient, (1 + 1 / this.t) / (1e-3 + this.largest + (this.seen.at(-3) ?? 0)));
        }
      })();
    case 'tensor':
      return new (class InTensor extends Own {
        scale = tf.keep(tf.scalar(1));

        factorOf(_: tfjs.Variable, gradient: tfjs.Tensor) {
          const before = this.scale;
          this.scale = tf.keep(tf.add(tf.mul(before, 0.9), tf.mean(tf.abs(gradient))) as tfjs.Scalar);
          before.dispose();
          return tf.div(gradient, this.scale);
        }
      })();
    case 'wrapper':
      return new (class Lookahead extends tf.Optimizer {
        readonly inner = tf.train.adam(rate / 10);
        slow: Record<string, tfjs.Variable> = {};
        k = 0;

        applyGradients(gradients: tfjs.NamedTensorMap | Given[]): void {
          for (const { name } of listOf(gradients as tfjs.NamedTensorMap)) {
            this.slow[name] ??= tf.tidy(() => variableOf(name).clone().variable(false));
          }
          this.inner.applyGradients(gradients as never);
          this.k++;
          if (this.k % 3 === 0) {
            tf.tidy(() => {
              for (const [name, slow] of Object.entries(this.slow)) {
                slow.assign(tf.add(slow, tf.mul(0.5, tf.sub(variableOf(name), slow))));
                variableOf(name).assign(slow.clone());
              }
            });
          }
          this.incrementIterations();
        }

        getConfig() {
          return {};
        }
      })();
    case 'derived':
      return new (class AdamW extends tf.AdamOptimizer {
        decays = 0;

        override applyGradients(gradients: tfjs.NamedTensorMap | Given[]): void {
          this.decays++;
          tf.tidy(() => {
            for (const { name } of listOf(gradients as tfjs.NamedTensorMap)) {
              variableOf(name).assign(tf.mul(variableOf(name), 1 - 0.01 / this.decays));
            }
          });
          super.applyGradients(gradients as never);
        }
      })(rate / 10, 0.9, 0.99);
    case 'private':
      return new (class Private extends Own {
        readonly #v: Record<string, tfjs.Variable> = {};

        factorOf(variable: tfjs.Variable, gradient: tfjs.Tensor) {
          this.#v[variable.name] ??= zeros(variable);
          return this.moved(this.#v[variable.name] as tfjs.Variable, gradient);
        }

        override async getWeights() {
          return [await this.saveIterations(), ...Object.entries(this.#v).map(([name, tensor]) => ({ name: `${name}/momentum`, tensor }))];
        }

        override async setWeights(weights: Weights) {
          for (const { name, tensor } of await this.extractIterations(weights)) {
            this.#v[name.replace(/\/momentum$/, '')] = tf.variable(tensor, false);
          }
        }
      })();
    case 'nested':
      return new (class Nested extends Own {
        readonly groups: { readonly kind: string; readonly of: { name: string; m?: tfjs.Variable; history: Float32Array }[] }[] = [
          { kind: 'all', of: [] },
        ];

        factorOf(variable: tfjs.Variable, gradient: tfjs.Tensor) {
          const { of } = this.groups[0] as (typeof this.groups)[number];
          let own = of.find(({ name }) => name === variable.name);
          if (own === undefined) {
            own = { name: variable.name, history: new Float32Array(2) };
            of.push(own);
          }
          own.m ??= zeros(variable);
          own.history[0] = (own.history[0] as number) * 0.5 + 1;
          return tf.mul(this.moved(own.m, gradient), own.history[0]);
        }
      })();
  }
}
