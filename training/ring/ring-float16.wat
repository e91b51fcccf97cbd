;; Converts between float32 and IEEE 754 binary16 for the ring. Assemble this file with wat2wasm from the WebAssembly Binary Toolkit;
;; ring-float16.ts contains the result. `to` and `from` are byte addresses. `count` is rounded down to a multiple of 8; the caller converts
;; the remaining numbers.
(module
  (import "ring" "memory" (memory 1))

  ;; float16[to ...] = float32[from ...]; finite numbers beyond the range become the largest finite float16
  (func (export "encode") (param $to i32) (param $from i32) (param $count i32)
    (local $left i32) (local $bits v128) (local $sign v128) (local $special v128) (local $small v128) (local $normal v128) (local $low v128) (local $high v128)
    (local.set $left (i32.shr_u (local.get $count) (i32.const 3)))
    (block $done
      (loop $eight
        (br_if $done (i32.eqz (local.get $left)))
        (local.set $sign (v128.and (local.tee $bits (v128.load align=4 (local.get $from))) (v128.const i32x4 0x80000000 0x80000000 0x80000000 0x80000000)))
        (local.set $bits (v128.xor (local.get $bits) (local.get $sign)))
        (local.set $special (i32x4.ge_s (local.get $bits) (v128.const i32x4 0x7f800000 0x7f800000 0x7f800000 0x7f800000)))
        ;; rounds to nearest, ties to even: adds half of the last place that is kept, minus 1 if that place is even
        (local.set $small (i32x4.min_s (local.get $bits) (v128.const i32x4 0x477fe000 0x477fe000 0x477fe000 0x477fe000)))
        (local.set $normal (i32x4.shr_u (i32x4.add
          (i32x4.add (local.get $small) (v128.const i32x4 0xc8000fff 0xc8000fff 0xc8000fff 0xc8000fff))
          (v128.and (i32x4.shr_u (local.get $small) (i32.const 13)) (v128.const i32x4 1 1 1 1))) (i32.const 13)))
        ;; after 0.5 is added, the lowest bits of the sum are the bits of the subnormal float16
        (local.set $normal (v128.bitselect
          (i32x4.sub (f32x4.add (local.get $small) (v128.const f32x4 0.5 0.5 0.5 0.5)) (v128.const f32x4 0.5 0.5 0.5 0.5))
          (local.get $normal)
          (i32x4.lt_s (local.get $small) (v128.const i32x4 0x38800000 0x38800000 0x38800000 0x38800000))))
        (local.set $normal (v128.bitselect
          (v128.or (v128.const i32x4 0x7c00 0x7c00 0x7c00 0x7c00) (v128.and (v128.const i32x4 0x200 0x200 0x200 0x200)
            (i32x4.gt_s (local.get $bits) (v128.const i32x4 0x7f800000 0x7f800000 0x7f800000 0x7f800000))))
          (local.get $normal) (local.get $special)))
        (local.set $low (v128.or (local.get $normal) (i32x4.shr_u (local.get $sign) (i32.const 16))))
        (local.set $sign (v128.and (local.tee $bits (v128.load offset=16 align=4 (local.get $from))) (v128.const i32x4 0x80000000 0x80000000 0x80000000 0x80000000)))
        (local.set $bits (v128.xor (local.get $bits) (local.get $sign)))
        (local.set $special (i32x4.ge_s (local.get $bits) (v128.const i32x4 0x7f800000 0x7f800000 0x7f800000 0x7f800000)))
        ;; rounds to nearest, ties to even: adds half of the last place that is kept, minus 1 if that place is even
        (local.set $small (i32x4.min_s (local.get $bits) (v128.const i32x4 0x477fe000 0x477fe000 0x477fe000 0x477fe000)))
        (local.set $normal (i32x4.shr_u (i32x4.add
          (i32x4.add (local.get $small) (v128.const i32x4 0xc8000fff 0xc8000fff 0xc8000fff 0xc8000fff))
          (v128.and (i32x4.shr_u (local.get $small) (i32.const 13)) (v128.const i32x4 1 1 1 1))) (i32.const 13)))
        ;; after 0.5 is added, the lowest bits of the sum are the bits of the subnormal float16
        (local.set $normal (v128.bitselect
          (i32x4.sub (f32x4.add (local.get $small) (v128.const f32x4 0.5 0.5 0.5 0.5)) (v128.const f32x4 0.5 0.5 0.5 0.5))
          (local.get $normal)
          (i32x4.lt_s (local.get $small) (v128.const i32x4 0x38800000 0x38800000 0x38800000 0x38800000))))
        (local.set $normal (v128.bitselect
          (v128.or (v128.const i32x4 0x7c00 0x7c00 0x7c00 0x7c00) (v128.and (v128.const i32x4 0x200 0x200 0x200 0x200)
            (i32x4.gt_s (local.get $bits) (v128.const i32x4 0x7f800000 0x7f800000 0x7f800000 0x7f800000))))
          (local.get $normal) (local.get $special)))
        (local.set $high (v128.or (local.get $normal) (i32x4.shr_u (local.get $sign) (i32.const 16))))
        (v128.store align=2 (local.get $to) (i16x8.narrow_i32x4_u (local.get $low) (local.get $high)))
        (local.set $to (i32.add (local.get $to) (i32.const 16)))
        (local.set $from (i32.add (local.get $from) (i32.const 32)))
        (local.set $left (i32.sub (local.get $left) (i32.const 1)))
        (br $eight))))

  ;; float32[to ...] = float16[from ...]
  (func (export "decode") (param $to i32) (param $from i32) (param $count i32)
    (local $left i32) (local $eight v128) (local $half v128) (local $bits v128) (local $exponent v128)
    (local.set $left (i32.shr_u (local.get $count) (i32.const 3)))
    (block $done
      (loop $eight
        (br_if $done (i32.eqz (local.get $left)))
        (local.set $eight (v128.load align=2 (local.get $from)))
        (local.set $half (i32x4.extend_low_i16x8_u (local.get $eight)))
        (local.set $bits (i32x4.shl (v128.and (local.get $half) (v128.const i32x4 0x7fff 0x7fff 0x7fff 0x7fff)) (i32.const 13)))
        (local.set $exponent (v128.and (local.get $bits) (v128.const i32x4 0x0f800000 0x0f800000 0x0f800000 0x0f800000)))
        (local.set $bits (i32x4.add (local.get $bits) (v128.const i32x4 0x38000000 0x38000000 0x38000000 0x38000000)))
        (local.set $bits (i32x4.add (local.get $bits) (v128.and (v128.const i32x4 0x38000000 0x38000000 0x38000000 0x38000000)
          (i32x4.eq (local.get $exponent) (v128.const i32x4 0x0f800000 0x0f800000 0x0f800000 0x0f800000)))))
        (local.set $bits (v128.bitselect
          (f32x4.sub (i32x4.add (local.get $bits) (v128.const i32x4 0x00800000 0x00800000 0x00800000 0x00800000))
            (v128.const i32x4 0x38800000 0x38800000 0x38800000 0x38800000))
          (local.get $bits) (i32x4.eq (local.get $exponent) (v128.const i32x4 0 0 0 0))))
        (local.set $bits (v128.or (local.get $bits)
          (i32x4.shl (v128.and (local.get $half) (v128.const i32x4 0x8000 0x8000 0x8000 0x8000)) (i32.const 16))))
        (v128.store align=4 (local.get $to) (local.get $bits))
        (local.set $half (i32x4.extend_high_i16x8_u (local.get $eight)))
        (local.set $bits (i32x4.shl (v128.and (local.get $half) (v128.const i32x4 0x7fff 0x7fff 0x7fff 0x7fff)) (i32.const 13)))
        (local.set $exponent (v128.and (local.get $bits) (v128.const i32x4 0x0f800000 0x0f800000 0x0f800000 0x0f800000)))
        (local.set $bits (i32x4.add (local.get $bits) (v128.const i32x4 0x38000000 0x38000000 0x38000000 0x38000000)))
        (local.set $bits (i32x4.add (local.get $bits) (v128.and (v128.const i32x4 0x38000000 0x38000000 0x38000000 0x38000000)
          (i32x4.eq (local.get $exponent) (v128.const i32x4 0x0f800000 0x0f800000 0x0f800000 0x0f800000)))))
        (local.set $bits (v128.bitselect
          (f32x4.sub (i32x4.add (local.get $bits) (v128.const i32x4 0x00800000 0x00800000 0x00800000 0x00800000))
            (v128.const i32x4 0x38800000 0x38800000 0x38800000 0x38800000))
          (local.get $bits) (i32x4.eq (local.get $exponent) (v128.const i32x4 0 0 0 0))))
        (local.set $bits (v128.or (local.get $bits)
          (i32x4.shl (v128.and (local.get $half) (v128.const i32x4 0x8000 0x8000 0x8000 0x8000)) (i32.const 16))))
        (v128.store offset=16 align=4 (local.get $to) (local.get $bits))
        (local.set $to (i32.add (local.get $to) (i32.const 32)))
        (local.set $from (i32.add (local.get $from) (i32.const 16)))
        (local.set $left (i32.sub (local.get $left) (i32.const 1)))
        (br $eight))))

  ;; float32[to ...] += float16[from ...]
  (func (export "addHalf") (param $to i32) (param $from i32) (param $count i32)
    (local $left i32) (local $eight v128) (local $half v128) (local $bits v128) (local $exponent v128)
    (local.set $left (i32.shr_u (local.get $count) (i32.const 3)))
    (block $done
      (loop $eight
        (br_if $done (i32.eqz (local.get $left)))
        (local.set $eight (v128.load align=2 (local.get $from)))
        (local.set $half (i32x4.extend_low_i16x8_u (local.get $eight)))
        (local.set $bits (i32x4.shl (v128.and (local.get $half) (v128.const i32x4 0x7fff 0x7fff 0x7fff 0x7fff)) (i32.const 13)))
        (local.set $exponent (v128.and (local.get $bits) (v128.const i32x4 0x0f800000 0x0f800000 0x0f800000 0x0f800000)))
        (local.set $bits (i32x4.add (local.get $bits) (v128.const i32x4 0x38000000 0x38000000 0x38000000 0x38000000)))
        (local.set $bits (i32x4.add (local.get $bits) (v128.and (v128.const i32x4 0x38000000 0x38000000 0x38000000 0x38000000)
          (i32x4.eq (local.get $exponent) (v128.const i32x4 0x0f800000 0x0f800000 0x0f800000 0x0f800000)))))
        (local.set $bits (v128.bitselect
          (f32x4.sub (i32x4.add (local.get $bits) (v128.const i32x4 0x00800000 0x00800000 0x00800000 0x00800000))
            (v128.const i32x4 0x38800000 0x38800000 0x38800000 0x38800000))
          (local.get $bits) (i32x4.eq (local.get $exponent) (v128.const i32x4 0 0 0 0))))
        (local.set $bits (v128.or (local.get $bits)
          (i32x4.shl (v128.and (local.get $half) (v128.const i32x4 0x8000 0x8000 0x8000 0x8000)) (i32.const 16))))
        (v128.store align=4 (local.get $to) (f32x4.add (v128.load align=4 (local.get $to)) (local.get $bits)))
        (local.set $half (i32x4.extend_high_i16x8_u (local.get $eight)))
        (local.set $bits (i32x4.shl (v128.and (local.get $half) (v128.const i32x4 0x7fff 0x7fff 0x7fff 0x7fff)) (i32.const 13)))
        (local.set $exponent (v128.and (local.get $bits) (v128.const i32x4 0x0f800000 0x0f800000 0x0f800000 0x0f800000)))
        (local.set $bits (i32x4.add (local.get $bits) (v128.const i32x4 0x38000000 0x38000000 0x38000000 0x38000000)))
        (local.set $bits (i32x4.add (local.get $bits) (v128.and (v128.const i32x4 0x38000000 0x38000000 0x38000000 0x38000000)
          (i32x4.eq (local.get $exponent) (v128.const i32x4 0x0f800000 0x0f800000 0x0f800000 0x0f800000)))))
        (local.set $bits (v128.bitselect
          (f32x4.sub (i32x4.add (local.get $bits) (v128.const i32x4 0x00800000 0x00800000 0x00800000 0x00800000))
            (v128.const i32x4 0x38800000 0x38800000 0x38800000 0x38800000))
          (local.get $bits) (i32x4.eq (local.get $exponent) (v128.const i32x4 0 0 0 0))))
        (local.set $bits (v128.or (local.get $bits)
          (i32x4.shl (v128.and (local.get $half) (v128.const i32x4 0x8000 0x8000 0x8000 0x8000)) (i32.const 16))))
        (v128.store offset=16 align=4 (local.get $to) (f32x4.add (v128.load offset=16 align=4 (local.get $to)) (local.get $bits)))
        (local.set $to (i32.add (local.get $to) (i32.const 32)))
        (local.set $from (i32.add (local.get $from) (i32.const 16)))
        (local.set $left (i32.sub (local.get $left) (i32.const 1)))
        (br $eight)))))
