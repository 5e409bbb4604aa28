00000d6c <sterna_model_k3_pad_conv_integer_mul_add_more>:
stmdb	sp!, {r4, r5, r6, r7, r8, r9, sl, fp, lr}
ldrd	r1, r2, [r0, #8]
sub	sp, #124	@ 0x7c
ldr	r1, [r1, #0]
ldr	r2, [r2, #0]
ldr	r3, [r0, #16]
str	r2, [sp, #84]	@ 0x54
negs	r2, r1
str	r2, [sp, #60]	@ 0x3c
movs	r2, #0
str	r1, [sp, #80]	@ 0x50
str	r2, [sp, #64]	@ 0x40
str	r2, [sp, #52]	@ 0x34
mov	r1, r2
str	r2, [sp, #56]	@ 0x38
add.w	r2, r3, #2304	@ 0x900
str	r2, [sp, #92]	@ 0x5c
add.w	r2, r3, #160	@ 0xa0
adds	r3, #16
str	r0, [sp, #88]	@ 0x58
str	r2, [sp, #100]	@ 0x64
str	r3, [sp, #96]	@ 0x60
mov.w	fp, #2147483648	@ 0x80000000
ldr	r3, [sp, #88]	@ 0x58
ldr.w	sl, [r3, #20]
ldr	r3, [sp, #56]	@ 0x38
cmp	r3, #0
bne.w	110e <sterna_model_k3_pad_conv_integer_mul_add_more+0x3a2>
add.w	r6, sl, #32
mov	r3, sl
mvn.w	r2, #8323199	@ 0x7f007f
str	r2, [r3, #0]
str	r2, [r3, #4]
adds	r3, #8
cmp	r6, r3
bne.n	db8 <sterna_model_k3_pad_conv_integer_mul_add_more+0x4c>
add.w	r0, sl, #64	@ 0x40
add.w	r2, sl, #1088	@ 0x440
sub.w	r3, r0, #32
mvn.w	r4, #8323199	@ 0x7f007f
str	r4, [r3, #0]
str	r4, [r3, #4]
adds	r3, #8
cmp	r0, r3
bne.n	dd2 <sterna_model_k3_pad_conv_integer_mul_add_more+0x66>
adds	r0, #32
cmp	r2, r0
bne.n	dce <sterna_model_k3_pad_conv_integer_mul_add_more+0x62>
add.w	r3, sl, #1056	@ 0x420
mvn.w	r0, #8323199	@ 0x7f007f
str	r0, [r3, #0]
str	r0, [r3, #4]
adds	r3, #8
cmp	r2, r3
bne.n	dea <sterna_model_k3_pad_conv_integer_mul_add_more+0x7e>
movs	r4, #0
movs	r5, #5
movs	r3, #1
mvn.w	r7, #26
ldr	r0, [sp, #52]	@ 0x34
add.w	ip, r3, r3, lsl #4
subs	r6, r6, r0
add.w	r0, r1, ip, lsl #6
add.w	lr, r0, sl
add	r5, r3
mov.w	r0, ip, lsl #6
str	r0, [sp, #8]
add.w	ip, r5, r5, lsl #4
add.w	r0, lr, #32
add.w	r8, r6, ip, lsl #6
str	r0, [sp, #4]
ldr	r6, [sp, #60]	@ 0x3c
ldr	r0, [sp, #80]	@ 0x50
add.w	lr, r0, r6
ldr	r0, [sp, #4]
mov.w	ip, ip, lsl #6
mov.w	r9, r3, lsl #4
mov	r6, r8
sub.w	r8, r0, #32
str	r3, [sp, #4]
mvn.w	r3, #8323199	@ 0x7f007f
str.w	r3, [r8]
str.w	r3, [r8, #4]
add.w	r8, r8, #8
cmp	r0, r8
bne.n	e42 <sterna_model_k3_pad_conv_integer_mul_add_more+0xd6>
add.w	r0, r0, #1088	@ 0x440
cmp	r6, r0
ldr	r3, [sp, #4]
bne.n	e3c <sterna_model_k3_pad_conv_integer_mul_add_more+0xd0>
add	r9, r3
add.w	r0, lr, r9, lsl #5
mov.w	r8, r5, lsl #5
ldr	r5, [sp, #80]	@ 0x50
str	r4, [sp, #4]
add.w	r0, r0, #2147483648	@ 0x80000000
adds	r0, #15
add.w	r6, r5, #15
add.w	r6, r6, r3, lsl #9
add.w	r0, sl, r0, lsl #1
lsls	r3, r3, #5
str.w	sl, [sp, #12]
sub.w	r9, r6, #512	@ 0x200
mov	sl, r0
sub.w	r4, r9, #16
mov	r5, sl
ldrsb.w	lr, [r4, #1]!
strh.w	lr, [r5, #2]!
cmp	r9, r4
bne.n	e92 <sterna_model_k3_pad_conv_integer_mul_add_more+0x126>
add.w	r9, r9, #16
cmp	r6, r9
add.w	sl, sl, #32
bne.n	e8c <sterna_model_k3_pad_conv_integer_mul_add_more+0x120>
adds	r3, #32
cmp	r8, r3
add.w	r6, r6, #512	@ 0x200
add.w	r0, r0, #1088	@ 0x440
bne.n	e86 <sterna_model_k3_pad_conv_integer_mul_add_more+0x11a>
ldr	r3, [sp, #52]	@ 0x34
ldr	r0, [sp, #8]
ldr.w	sl, [sp, #12]
ldr	r4, [sp, #4]
subs	r2, r2, r3
add.w	r3, r1, #1056	@ 0x420
add	r3, r0
add	r3, sl
add	r2, ip
adds	r3, #32
sub.w	r0, r3, #32
mvn.w	r5, #8323199	@ 0x7f007f
str	r5, [r0, #0]
str	r5, [r0, #4]
adds	r0, #8
cmp	r3, r0
bne.n	ed4 <sterna_model_k3_pad_conv_integer_mul_add_more+0x168>
add.w	r3, r3, #1088	@ 0x440
cmp	r2, r3
bne.n	ed0 <sterna_model_k3_pad_conv_integer_mul_add_more+0x164>
cmp	r7, #1
beq.w	1138 <sterna_model_k3_pad_conv_integer_mul_add_more+0x3cc>
ldr	r3, [sp, #92]	@ 0x5c
str.w	sl, [sp, #28]
rsb	r4, r4, r4, lsl #29
movs	r2, #0
lsls	r0, r4, #3
mov	r7, r3
mov	r9, r2
mov	r3, r2
mvn.w	lr, #127	@ 0x7f
str	r1, [sp, #104]	@ 0x68
mov	r4, r0
ldr	r5, [sp, #84]	@ 0x54
ldr	r0, [sp, #96]	@ 0x60
str	r4, [sp, #116]	@ 0x74
add.w	ip, r5, r3
ldr	r5, [sp, #100]	@ 0x64
add.w	r1, r3, r3, lsl #3
strd	r2, r3, [sp, #108]	@ 0x6c
add.w	r1, r0, r1, lsl #4
add	r5, r2
str	r1, [sp, #48]	@ 0x30
mov	r0, r4
movs	r1, #0
str	r5, [sp, #24]
add.w	r3, r1, r1, lsl #4
lsls	r2, r3, #6
add.w	r4, r2, #1024	@ 0x400
add.w	r3, ip, r0, lsl #6
strd	r0, r1, [sp, #68]	@ 0x44
str	r4, [sp, #44]	@ 0x2c
mov	r1, r3
mov	r4, r2
mov	r3, r7
str.w	ip, [sp, #76]	@ 0x4c
strd	r3, r1, [sp, #32]
movs	r7, #0
ldr	r2, [sp, #48]	@ 0x30
str	r4, [sp, #40]	@ 0x28
mov	r0, r4
mov	ip, r7
mov	r8, r7
mov	sl, r7
ldr	r3, [sp, #28]
strd	r2, r0, [sp, #16]
adds	r5, r3, r0
mov	r6, r2
movs	r1, #0
mov	r2, r8
str.w	ip, [sp, #4]
sub.w	r0, r6, #16
mov	ip, sl
mov	r3, r5
str	r6, [sp, #12]
mov	r8, r5
mov	sl, r1
str	r2, [sp, #8]
ldr.w	r2, [r0], #4
sxtb16	r1, r2
ldrd	r6, r4, [r3]
sxtb16	r2, r2, ror #8
smlad	ip, r6, r1, ip
smlad	ip, r4, r2, ip
ldrd	r4, r6, [r3, #32]
ldr	r5, [sp, #8]
smlad	r5, r4, r1, r5
smlad	r5, r6, r2, r5
str	r5, [sp, #8]
ldrd	r4, r6, [r3, #64]	@ 0x40
ldr	r5, [sp, #4]
smlad	r5, r4, r1, r5
smlad	r5, r6, r2, r5
ldrd	r4, r6, [r3, #96]	@ 0x60
str	r5, [sp, #4]
smlad	r7, r4, r1, r7
smlad	r7, r6, r2, r7
ldr	r2, [sp, #12]
cmp	r0, r2
add.w	r3, r3, #8
bne.n	f80 <sterna_model_k3_pad_conv_integer_mul_add_more+0x214>
mov	r1, sl
ldr	r3, [sp, #8]
adds	r1, #4
mov	r5, r8
cmp	r1, #12
mov	sl, ip
mov	r8, r3
ldr.w	ip, [sp, #4]
add.w	r5, r5, #32
add.w	r6, r0, #16
bne.n	f6a <sterna_model_k3_pad_conv_integer_mul_add_more+0x1fe>
ldrd	r2, r0, [sp, #16]
ldr	r3, [sp, #24]
adds	r2, #48	@ 0x30
cmp	r2, r3
add.w	r0, r0, #1088	@ 0x440
bne.n	f5e <sterna_model_k3_pad_conv_integer_mul_add_more+0x1f2>
ldrd	r3, r1, [sp, #32]
ldr	r0, [r3, #0]
ldr	r5, [r3, #64]	@ 0x40
ldr.w	r6, [r3, #128]	@ 0x80
ldr	r4, [sp, #40]	@ 0x28
add.w	r2, r0, sl, lsl #1
add.w	r8, r0, r8, lsl #1
add.w	ip, r0, ip, lsl #1
add.w	r7, r0, r7, lsl #1
mov	sl, fp
mov	r0, r9
smlal	sl, r0, r2, r5
mov	r2, fp
mov	sl, r9
smlal	r2, sl, r5, r8
mov	r8, fp
mov	r2, r9
smlal	r8, r2, r5, ip
mov	r8, fp
mov	ip, r9
and.w	r6, r6, #31
smlal	r8, ip, r5, r7
mvn.w	r5, #254	@ 0xfe
lsls	r5, r6
add.w	r0, r0, r5, asr #1
asrs	r0, r6
add.w	sl, sl, r5, asr #1
asr.w	sl, sl, r6
cmp	r0, lr
add.w	r2, r2, r5, asr #1
asr.w	r2, r2, r6
it	lt
movlt	r0, lr
add.w	r5, ip, r5, asr #1
cmp	sl, lr
asr.w	r5, r5, r6
it	lt
movlt	sl, lr
cmp	r2, lr
it	lt
movlt	r2, lr
cmp	r5, lr
it	lt
movlt	r5, lr
cmp	r0, #127	@ 0x7f
it	ge
movge	r0, #127	@ 0x7f
cmp.w	sl, #127	@ 0x7f
it	ge
movge.w	sl, #127	@ 0x7f
cmp	r2, #127	@ 0x7f
it	ge
movge	r2, #127	@ 0x7f
strb.w	r2, [r1, #32]
ldr	r2, [sp, #44]	@ 0x2c
strb	r0, [r1, #0]
cmp	r5, #127	@ 0x7f
add.w	r4, r4, #128	@ 0x80
it	ge
movge	r5, #127	@ 0x7f
cmp	r4, r2
strb.w	sl, [r1, #16]
strb.w	r5, [r1, #48]	@ 0x30
add.w	r1, r1, #64	@ 0x40
bne.w	f4c <sterna_model_k3_pad_conv_integer_mul_add_more+0x1e0>
ldrd	r0, r1, [sp, #68]	@ 0x44
adds	r1, #1
cmp	r1, #4
ldr.w	ip, [sp, #76]	@ 0x4c
mov	r7, r3
add.w	r0, r0, #8
bne.w	f2e <sterna_model_k3_pad_conv_integer_mul_add_more+0x1c2>
ldrd	r2, r3, [sp, #108]	@ 0x6c
adds	r3, #1
cmp	r3, #16
ldr	r4, [sp, #116]	@ 0x74
add.w	r7, r7, #4
add.w	r2, r2, #144	@ 0x90
bne.w	f0c <sterna_model_k3_pad_conv_integer_mul_add_more+0x1a0>
ldr	r2, [sp, #52]	@ 0x34
ldr	r3, [sp, #56]	@ 0x38
ldr	r1, [sp, #104]	@ 0x68
add.w	r2, r2, #4352	@ 0x1100
str	r2, [sp, #52]	@ 0x34
ldr	r2, [sp, #64]	@ 0x40
subs	r2, #4
str	r2, [sp, #64]	@ 0x40
ldr	r2, [sp, #60]	@ 0x3c
adds	r3, #1
sub.w	r2, r2, #2176	@ 0x880
cmp	r3, #8
str	r3, [sp, #56]	@ 0x38
sub.w	r1, r1, #4352	@ 0x1100
str	r2, [sp, #60]	@ 0x3c
bne.w	da4 <sterna_model_k3_pad_conv_integer_mul_add_more+0x38>
movs	r0, #0
add	sp, #124	@ 0x7c
ldmia.w	sp!, {r4, r5, r6, r7, r8, r9, sl, fp, pc}
ldr	r3, [sp, #64]	@ 0x40
ldr	r2, [sp, #56]	@ 0x38
rsb	r5, r3, #6
cmp	r5, #33	@ 0x21
it	ge
movge	r5, #33	@ 0x21
sub.w	r5, r5, r2, lsl #2
mvn.w	r7, #26
cmp	r5, #0
sub.w	r7, r7, r3
mov	r4, r3
mov.w	r3, r2, lsl #2
bgt.n	119a <sterna_model_k3_pad_conv_integer_mul_add_more+0x42e>
cmp	r7, #1
bne.w	ef0 <sterna_model_k3_pad_conv_integer_mul_add_more+0x184>
add.w	r3, r1, #35840	@ 0x8c00
adds	r3, #64	@ 0x40
add	r3, sl
add.w	r2, r3, #32
mvn.w	r0, #8323199	@ 0x7f007f
str	r0, [r3, #0]
str	r0, [r3, #4]
adds	r3, #8
cmp	r2, r3
bne.n	1144 <sterna_model_k3_pad_conv_integer_mul_add_more+0x3d8>
ldr	r0, [sp, #52]	@ 0x34
add.w	r2, sl, r1
add.w	r3, sl, #36864	@ 0x9000
add.w	r2, r2, #35840	@ 0x8c00
adds	r3, #128	@ 0x80
adds	r2, #128	@ 0x80
subs	r0, r3, r0
sub.w	r3, r2, #32
mvn.w	r5, #8323199	@ 0x7f007f
str	r5, [r3, #0]
str	r5, [r3, #4]
adds	r3, #8
cmp	r2, r3
bne.n	116a <sterna_model_k3_pad_conv_integer_mul_add_more+0x3fe>
adds	r2, #32
cmp	r0, r2
bne.n	1166 <sterna_model_k3_pad_conv_integer_mul_add_more+0x3fa>
add.w	r3, r1, #36864	@ 0x9000
adds	r3, #96	@ 0x60
add	r3, sl
add.w	r2, r3, #32
mvn.w	r0, #8323199	@ 0x7f007f
str	r0, [r3, #0]
str	r0, [r3, #4]
adds	r3, #8
cmp	r2, r3
bne.n	118a <sterna_model_k3_pad_conv_integer_mul_add_more+0x41e>
b.n	ef0 <sterna_model_k3_pad_conv_integer_mul_add_more+0x184>
add.w	r6, sl, #32
add.w	r2, sl, #1088	@ 0x440
b.n	e02 <sterna_model_k3_pad_conv_integer_mul_add_more+0x96>

