import type * as tfjs from '@tensorflow/tfjs';
import type { NativeBackend } from './native-backend.ts';

let created = 0;

/**
 * A TensorFlow resource variable that mirrors a tf.Variable, because fused kernels can update only resource variables in place. Each step
 * calls `take`, runs the kernel on the resource, and calls `give`:
 *
 *   take    copies the tf.Variable's value to the resource if other code has changed it; then releases the tf.Variable's memory
 *   give    assigns the resource's value to the tf.Variable, without a copy
 *
 * TensorFlow copies a shared buffer before it changes the buffer, so a program's clones keep their values.
 */
export class ResourceVariable {
  readonly handle: tfjs.Tensor;
  readonly variable: tfjs.Variable;
  readonly #native: NativeBackend;
  /** ID of the data shared by the tf.Variable and the resource, or null before the first `take`. */
  #shared: object | null = null;

  constructor(native: NativeBackend, variable: tfjs.Variable) {
    this.#native = native;
    this.variable = variable;
    created++;
    const attributes = [
      native.type('dtype'),
      native.shape('shape', variable.shape),
      native.text('container', ''),
      native.text('shared_name', `tony-ts/${created}`),
    ];
    this.handle = native.tf.keep(native.runRaw('VarHandleOp', [], attributes, 1)[0] as tfjs.Tensor);
  }

  /** True if other code has assigned a value to the tf.Variable since the last `give`. */
  get changed(): boolean {
    return this.variable.dataId !== this.#shared;
  }

  /** Moves the value to the resource. The tf.Variable must not be read until `give` is called. */
  take(): void {
    if (this.changed) {
      this.#native.runRaw('AssignVariableOp', [this.handle, this.variable], [this.#native.type('dtype')], 0);
      this.#shared = this.variable.dataId;
    }
    if (this.#native.sharers(this.variable) === 1) {
      this.#native.tf.engine().disposeTensor(this.variable);
    }
  }

  give(): void {
    const [value] = this.#native.runRaw('ReadVariableOp', [this.handle], [this.#native.type('dtype')], 1) as [tfjs.Tensor];
    this.variable.assign(value);
    value.dispose();
    this.#shared = this.variable.dataId;
  }

  /** Frees the resource variable. The tf.Variable keeps its value. */
  dispose(): void {
    this.#native.runRaw('DestroyResourceOp', [this.handle], [this.#native.flag('ignore_lookup_error', true)], 0);
    this.handle.dispose();
  }
}
